"""The symptom table: symptom → cause → fix → verify, as YAML."""
