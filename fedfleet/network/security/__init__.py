"""Who may take part, and how the server knows: keys and secrets, tokens and enrolment, TLS, text from strangers.

`secrets` derives everything that must be unguessable from one key of the run; `tokens` invites, `enrolment_request` and `enrolment`
admit, `enrolment_store` remembers; `attestation` is a hook; `tls` makes channels private and `certificates` makes what they need.
"""
