"""The user's own, which the injected one hides."""
import sys

sys.user_customized = True
