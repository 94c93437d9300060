"""What emitters of the C family share."""
