"""Why a kernel's time changed: reasons, each with its effect on the time, and their ranking."""
