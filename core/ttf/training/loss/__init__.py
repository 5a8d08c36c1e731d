"""InfoNCE over a whole bank of fixed documents in one pass, without a matrix of logits.

`sweep` is the pass, `found` what it sees on its way, `blocks` where the documents come from,
`loss` the autograd function, `whole` what an optimizer step calls.
"""
