"""Why a job makes no progress: one engine for live jobs, collected folders and our own launches."""
