"""Why a job makes no progress: one kind of evidence per module, and the judgement over all of
it."""
