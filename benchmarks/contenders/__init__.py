"""The contenders that are not Headrace; each file is a program that gets its task as JSON in its argument."""
