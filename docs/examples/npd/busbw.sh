#!/bin/sh
# Of node-problem-detector: 0 = well, 1 = a required check failed, 2 = not known. The line printed is the condition's message.
PATH=/opt/busbw/bin:$PATH
exec busbw check --local --framework npd --profile "${BUSBW_PROFILE:-infiniband}"
