"""Moving house: taking what one memory backend knows to another one of the same home."""
