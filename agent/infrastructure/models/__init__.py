"""Language models behind the LanguageModel port. Imported when the first run needs one."""
