"""The catalogue: symptom → cause → fix → verify, as YAML."""
