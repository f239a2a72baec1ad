"""What the programs we compare with run: standalone scripts for their own interpreters, which do not have `fedvls`."""
