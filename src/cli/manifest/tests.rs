//! Where things stand in a text, and what is said of one that is no YAML.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn values(text: &str) -> Vec<Value> {
    read(text).into_iter().map(|object| object.unwrap().value()).collect()
}

fn position(line: u64, column: u64) -> SourcePosition {
    SourcePosition { line, column }
}

#[test]
fn documents_lists_and_empty_documents_become_objects() {
    let text = "---\n# nothing\n---\na: 1\n--- # b\nkind: List\nitems:\n- b: 2\n- kind: ThingList\n  items: [{c: 3}]\n";
    assert_eq!(values(text), [json!({"a": 1}), json!({"b": 2}), json!({"c": 3})]);
    assert_eq!(values(""), [] as [Value; 0]);
    assert_eq!(values("{\n\t\"a\": \"b\"\n}"), [json!({"a": "b"})]);
    assert_eq!(values("%YAML 1.2\n---\na: 1\n...\n"), [json!({"a": 1})]);
    assert_eq!(values("\u{feff}a: 1\r\n---\r\nb: 2\r\n"), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(values("a: |\n  ---\n  b\n"), [json!({"a": "---\nb\n"})]);
}

#[test]
fn values_are_those_that_kubectl_reads() {
    let text = "[yes, off, 'yes', 010, 0x10, 1e3, 1.0, 0.5, 1.6, null, ~, '1', 1_000]";
    let read = json!([true, false, "yes", 8, 16, 1000, 1, 0.5, 1.6, null, null, "1", 1000]);
    assert_eq!(values(&format!("a: {text}\n")), [json!({"a": read})]);
    let merged = "a: &a {b: 1, c: 2}\nd:\n  <<: *a\n  c: 3\n";
    assert_eq!(values(merged), [json!({"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}})]);
}

#[rstest]
#[case("", position(2, 1))]
#[case("metadata", position(2, 1))]
#[case("metadata.labels.a.b/c", position(4, 5))]
#[case("metadata.labels[a.b/c]", position(4, 5))]
#[case("metadata.labels.a", position(5, 5))]
#[case("metadata.name", position(2, 1))]
#[case("list[1].c[0]", position(8, 7))]
#[case("list[2]", position(6, 1))]
#[case("nowhere.to.be.found", position(2, 1))]
fn a_path_leads_to_the_name_or_to_what_should_hold_it(#[case] path: &str, #[case] expected: SourcePosition) {
    let text = "# a cache\nmetadata:\n  labels:\n    a.b/c: d\n    a: e\nlist:\n- b: 1\n- c: [{d: 1}]\n";
    let objects = read(text);
    let [Ok(object)] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!(object.position_of(path), expected);
}

#[test]
fn places_count_from_the_start_of_the_text_in_every_document() {
    let objects = read("a: 1\n---\n\nb:\n- c: 1\n  c: 2\n");
    let [Ok(_), Ok(object)] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!((object.at(), object.position_of("b[0].c")), (position(4, 1), position(6, 3)));
    let again = Duplicate { path: "b[0].c".to_owned(), at: position(6, 3), first: position(5, 3) };
    assert_eq!(object.duplicates(), [again]);
}

#[rstest]
#[case("{\"a\": 1}{\"b\": 2}", position(1, 9), position(1, 10))]
#[case("\n{\"a\": 1}\n{\"b\": 2}\n", position(3, 1), position(3, 2))]
#[case("{\n \"a\": 1\n} {\n \"b\": 2\n}\n", position(3, 3), position(4, 2))]
#[case("{\"a\": 1}\n---\n{\"b\": 2}\n", position(3, 1), position(3, 2))]
fn json_objects_may_stand_one_behind_the_other(
    #[case] text: &str,
    #[case] at: SourcePosition,
    #[case] field: SourcePosition,
) {
    assert_eq!(values(text), [json!({"a": 1}), json!({"b": 2})]);
    let objects = read(text);
    let [Ok(_), Ok(object)] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!((object.at(), object.position_of("b")), (at, field));
}

#[rstest]
#[case("b:\n\tc: 2\n", 2, "a tab")]
#[case("a: |\n\tx\n", 1, "a tab")]
#[case("a:\n    b: 1\n  c: 2\n", 3, "the indentation")]
#[case("- a\nb: 1\n", 2, "the indentation")]
#[case("a: 1\n b: 2\n", 2, "no field can begin here")]
#[case("image: a: b\n", 1, "no field can begin here")]
#[case("a: 1\nb\nc: 2\n", 2, "a field's name lacks its ':'")]
#[case("a: [1, 2\n", 1, "a bracket")]
#[case("a: {b: 1\nc: 2\n", 2, "a bracket")]
#[case("{", 1, "a bracket")]
#[case("a: 'it's'\n", 1, "a text in quotes does not end")]
#[case("a: \"b\n", 2, "a text in quotes does not end")]
#[case("a: \"\\q\"\n", 1, "an escape")]
#[case("a: @b\n", 1, "a character that no text begins with")]
#[case("a: *b\n", 1, "an alias")]
#[case("<<: 1\n", 1, "a merge")]
#[case("? [a]\n: 1\n", 1, "the name of a field has to be a text")]
#[case("a: .nan\n", 1, "a number that JSON does not have")]
#[case("a: !!int b\n", 1, "a tag")]
#[case("a: 1\nb: {{ .Values.b }}\n", 2, "this looks like a template")]
#[case("{{- if .Values.b }}\n", 1, "this looks like a template")]
#[case("{\"a\": 1}{b: 2}", 1, "this cannot be read as YAML")]
fn what_is_no_yaml_is_said_in_words_for_whoever_wrote_it(
    #[case] text: &str,
    #[case] line: u64,
    #[case] words: &str,
) {
    let found = read(text);
    let [Err(Unreadable { at, message })] = &found[..] else { panic!("{found:?}") };
    assert!(message.starts_with(words) && at.line == line, "{at:?} {message}");
}

#[test]
fn nobody_can_make_it_run_out_of_room() {
    let deep = format!("a: {}{}\n", "[".repeat(5000), "]".repeat(5000));
    let nested = (0..2000).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
    let laughs: String =
        (1..30).map(|level| format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1)).collect();
    for text in [deep, nested, format!("a0: &a0 [x]\n{laughs}")] {
        let found = read(&text);
        let [Err(Unreadable { message, .. })] = &found[..] else { panic!("{}", found.len()) };
        assert_eq!(message, "the document is too large, or nested too deep");
    }
}

#[test]
fn a_section_may_have_any_number_of_aliases() {
    let text = format!("a: &a {{b: 1}}\nc: [{}]\n", ["*a"; 101].join(", "));
    let shared = json!({"b": 1});
    assert_eq!(values(&text), [json!({"a": shared, "c": vec![&shared; 101]})]);
}

/// Pieces of YAML, of which a text that nearly is some is made.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "spec",
        ": ",
        ":",
        "\n",
        "\n  ",
        "\n    ",
        "\n- ",
        "- ",
        "\t",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "'",
        "\"",
        "\\",
        "&a ",
        "*a",
        "<<",
        "|",
        ">",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "#",
        "!",
        "!!int ",
        "0",
        "-1",
        "1e400",
        ".nan",
        "~",
        "é",
        "\u{0}",
        "\r\n",
        "? ",
        "@",
        "kind: List\n",
        "items:\n",
        "apiVersion: memcached.c5c3.io/v1beta1\nkind: Memcached\n",
        "metadata: {name: a}\n",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in prop_oneof![pieces(), any::<String>()]) {
        let mut report = crate::cli::check::Report::default();
        report.check("file", &text);
        let lines = text.split('\n').count() as u64;
        for finding in report.findings {
            prop_assert!(finding.at.line >= 1 && finding.at.line <= lines + 1, "{finding} of {lines} lines");
        }
    }
}
