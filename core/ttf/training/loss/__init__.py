"""InfoNCE.

`infonce` is the loss. If the whole bank is the negatives, an optimizer step calls `whole_bank`;
`bank_blocks` reads the documents, `rank_counts` counts in the same pass.
"""
