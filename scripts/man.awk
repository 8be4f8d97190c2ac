# Makes a man page of a --help page: awk -v name=cairn-ls -v release="cairn 1.0" -f man.awk HELP.
# A help page has a description, sections ("Options:") of entries that are indented by two spaces,
# and paragraphs. "Examples:" is kept line by line.

# What troff would read as its own, spelled so that it prints.
function plain(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  gsub(/'/, "\\(aq", text)
  gsub(/`/, "\\(ga", text)
  gsub(/\^/, "\\(ha", text)
  gsub(/~/, "\\(ti", text)
  sub(/^\./, "\\\\\\&.", text)
  return text
}

function section(title) {
  print ".SH " title
  where = title
}

# Text between the sections. The first of it starts the notes.
function paragraph(text) {
  if (where != "NOTES") {
    section("NOTES")
  } else if (after_empty) {
    print ".PP"
  }
  print plain(text)
}

function entry(line,    at, word) {
  line = substr(line, 3)
  at = match(line, /  +/)
  word = at ? substr(line, 1, at - 1) : line
  print ".TP"
  print "\\fB" plain(word) "\\fR" (where == "COMMANDS" && at ? " (see \\fB" plain(name "-" word) "\\fR(1))" : "")
  if (at) print plain(substr(line, at + RLENGTH))
}

NR == 1 {
  printf ".TH %s 1 \"\" \"%s\" \"Cairn manual\"\n", toupper(plain(name)), plain(release)
  print ".nh\n.ad l"  # names stay whole
  print ".SH NAME"
  title = $0
  sub(/\.$/, "", title)
  print plain(name) " \\- " plain(title)
  next
}
/^[ \t]*$/ { after_empty = 1; next }
/^[A-Z][A-Za-z ]*:$/ {
  if (where == "EXAMPLES") print ".EE"
  title = toupper(substr($0, 1, length($0) - 1))
  section(title == "USAGE" ? "SYNOPSIS" : title)
  if (where == "EXAMPLES") print ".EX"
  after_empty = 0
  next
}
where == "SYNOPSIS" && /^  / { print "\\fB" plain(substr($0, 3)) "\\fR"; next }
where == "EXAMPLES" { print plain(substr($0, 3)); next }
/^  [^ ]/ { entry($0); next }
/^   / { sub(/^ +/, ""); print plain($0); next }
{ paragraph($0); after_empty = 0 }

END {
  if (where == "EXAMPLES") print ".EE"
  section("SEE ALSO")
  print name == "cairn" ? plain("cairn COMMAND --help") : "\\fBcairn\\fR(1)"
}
