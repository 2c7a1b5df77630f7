"""Facts of one kernel from its compiled code, each computed once; `code_facts.py` has all of them for the rules."""
