"""Why a training job waits, starts slowly or has failed: from objects as they were read to one answer in plain words.

`gather` reads what is needed and no more; `explain` decides, and touches nothing. Each layer between a JobSet and the cloud has a
module with small functions that find causes; `kinds` names every cause there is.
"""
