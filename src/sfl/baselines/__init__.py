"""The methods that SFL is compared with, one file each."""
