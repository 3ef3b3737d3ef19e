"""A learner that serves people: sessions, the service, its client and the console."""
