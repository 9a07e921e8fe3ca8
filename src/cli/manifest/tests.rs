//! Where things stand in a text, and what is said of one that is no YAML.

use std::fmt::Write as _;

use super::*;

#[test]
fn probe() {
    let mut out = String::new();
    for text in [
        "a: 1\nb:\n\tc: 2\n", "a: 1\n b: 2\n", "a:\n    b: 1\n  c: 2\n", "a: b: c\n", "a: [1, 2\n", "a: {b: 1\nc: 2\n", "a: \"x\nb: 1\n",
        "a\nb: 1\n", "a: 1\nb\nc: 2\n", "- a\nb: 1\n", "a:\n- 1\n - 2\n", "a: *x\n", "<<: 1\na: 2\n", "a: @x\n", "a: `x`\n", "a: %x\n", "a: \"\\q\"\n", "a: 'it's'\n",
        "? [a]\n: 1\n", "a: .nan\n", "a: !!int x\n", "a: !foo x\n", "a: 1\na: 2\n", "~: 1\n", "1: 2\n", "true: 2\n", "{\n\t\"a\": 1\n}\n", "{\"a\": 1}{\"b\": 2}", "a: |\n\tx\n", "a: yes\nb: 0x10\nc: 010\nd: 1e3\ne: 1_000\nf: 12345678901234567890123\n",
        "{{ .Values.x }}\n", "a: {{ .Values.x }}\n", "{", "\u{0}", "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 1\n", "]", "a: 1\n---\nb: [\n---\nc: 3\n", "%YAML 1.2\n---\na: 1\n", "\u{feff}a: 1\n", "a:\n  - b: 1\n    b: 2\n",
    ] {
        let _ = writeln!(out, "{text:?}");
        for node in read(text) {
            match node {
                Ok(node) => { let _ = writeln!(out, "   {:?} {} {:?}", node.at(), node.value(), node.duplicates()); }
                Err(e) => { let _ = writeln!(out, "   {}:{} {}", e.at.line, e.at.column, e.message); }
            }
        }
        if let Err(error) = node::read(text) { let _ = writeln!(out, "        {error:?}"); }
    }
    panic!("{out}");
}
