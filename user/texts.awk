# Makes C of Markdown: a macro PREFIX_NAME of each section "# NAME", with the initialisers of a
# struct's members. FIRST is the member that has the first paragraph, REST the one that has the
# others; those below a heading of `parts` have members of their own. Indented lines go into the
# member CODE; if it is not given, they stay in the text, each behind a tab. KEY, if it is given, is
# the member that has NAME. Without FIRST the macro is the text itself, as a string.

BEGIN {
	parts["## Try"] = "remedy"
	parts["## Then look at"] = "look"
	parts["## Threshold"] = "threshold"
	parts["## Suggestion"] = "suggestion"
	parts["## Sections"] = "sections"
}

function define() {
	if (name) {
		gsub(/-/, "_", name)
		printf "#define %s_%s ", prefix, name
		if (key)
			printf ".%s = \"%s\", ", key, name
		for (member in texts)
			printf(member ? ".%s = \"%s\", " : "%s\"%s\"", member, texts[member])
		print ""
	}
	delete texts
}

/^# / { define(); name = $2; part = first; next }
/^## / { part = parts[$0]; next }
/^$/ { if (part == first && part in texts) part = rest; paragraph = 1; next }
{
	is_code = sub(/^    /, "")
	member = is_code && code ? code : part
	if (!(member in texts))
		between = ""
	else if (is_code)
		between = code ? "\\n" : "\\n\\t"
	else
		between = paragraph ? "\\n\\n" : " "
	gsub(/[\\"]/, "\\\\&")
	texts[member] = texts[member] between $0
	paragraph = 0
}
END { define() }
