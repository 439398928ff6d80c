"""The torch modules of the tasks, imported only when a model is built.

Rules that let an executor train many clients in one batch: every parameter lives in a leaf (a linear layer, a
convolution, a normalisation, an embedding, an LSTM, or a leaf with one table); dimension 0 is the batch, and nothing mixes
its samples; dropout is addressed; no activation works in place. The last layer is called `head`, so that methods which
keep it at home can name it.
"""
