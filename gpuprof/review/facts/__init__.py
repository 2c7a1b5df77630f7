"""Facts of one kernel from its compiled code, each worked out once; `code_facts.py` has all of them for the rules."""
