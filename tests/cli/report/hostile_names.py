"""Names of tensors that a page could take for its own markup, scripts or members."""

HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<img src=http://127.0.0.1:9/x onerror=document.title='owned'>",
    "<!--<script>", "]]>", "\u2028line\u2029", "a&lt;b&amp;", "javascript:alert(1)", "{{style}}{{data}}", "\x1b[2J", "\u202egnp.exe",
    "__proto__", "constructor", "toString", "' onmouseover='x", "\\u003c/script>", "$&$1", "long" * 2000, " ", "",
]
