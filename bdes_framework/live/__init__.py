"""A learner that serves people for months: a session over a journal, a service and its client."""
