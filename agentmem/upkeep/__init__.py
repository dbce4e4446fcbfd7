"""What operators do with a store as a whole: look after it, copy it, prove what it promises."""
