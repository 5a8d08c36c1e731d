"""InfoNCE, by every path of training.

`infonce` is the one loss of a step's candidates; `sweep` the pass over documents that need no
gradient, without a matrix of logits. Where the whole bank is the negatives, `whole_bank` is what an
optimizer step calls, `bank_blocks` where the documents come from, `rank_counts` what the same pass
counts.
"""
