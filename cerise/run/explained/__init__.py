"""Plans and misses as text: how queries would run, and why they found nothing."""
