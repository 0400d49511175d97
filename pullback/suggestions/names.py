def suggest_name(owner, name):
    return ""
