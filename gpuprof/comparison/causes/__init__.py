"""Why a kernel's time changed: reasons, each with what it makes of the time, and the ranking of them."""
