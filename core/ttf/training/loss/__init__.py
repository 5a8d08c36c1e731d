"""InfoNCE, by every path of training.

`infonce` is the one loss, of a step's candidates or of whatever blocks it is given. Where the whole
bank is the negatives, `whole_bank` is what an optimizer step calls, `bank_blocks` where the documents
come from, `rank_counts` what the same pass counts.
"""
