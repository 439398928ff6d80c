"""Who may take part, and how the server knows: keys and secrets, tokens and enrolment, TLS, text from strangers.

`secrets` derives everything that must be unguessable from one key of the run; `tokens` invites, `admission` and `enrolment` admit,
`store` remembers; `evidence` is a hook for attestation; `tls` makes channels private and `certificates` makes what they need;
`foreign` disarms what strangers say.
"""
