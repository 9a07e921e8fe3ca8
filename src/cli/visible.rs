//! Text in which a terminal finds nothing to act on but colours. Pure; called by whatever prints a text.
//!
//! Pages quote what others wrote: the last words of a container, a message of the API server. A terminal that is sent escape
//! sequences puts other words on the screen, or into the clipboard of whoever looks.

/// What a style begins with: colours, bold.
const STYLE: &str = "\u{1b}[";

/// The numbers of the styles that the pages have, and clap's messages: none (twice), bold, underlined, red, green, yellow.
/// Others could hide a text.
const OURS: [&str; 7] = ["", "0", "1", "4", "31", "32", "33"];

/// The text with each control character as `\u001b`, but for ends of lines, tabs and styles. JSON reads that as the character
/// itself.
#[must_use]
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_command) {
        let (before, command) = rest.split_at(at);
        shown.push_str(before);
        rest = match split_style(command) {
            Some((style, after)) => {
                shown.push_str(style);
                after
            }
            None => {
                let mut after = command.chars();
                let control = after.next().map_or(0, u32::from);
                shown += &format!("\\u{control:04x}");
                after.as_str()
            }
        };
    }
    shown.push_str(rest);
    shown
}

fn is_command(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t')
}

/// A style of ours, and what is after it.
fn split_style(text: &str) -> Option<(&str, &str)> {
    let numbers = text.strip_prefix(STYLE)?;
    let length = numbers.find(|letter: char| !matches!(letter, '0'..='9' | ';'))?;
    let (numbers, end) = numbers.split_at(length);
    let is_ours = numbers.split(';').all(|number| OURS.contains(&number));
    (is_ours && end.starts_with('m')).then(|| text.split_at(STYLE.len() + length + 1))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::the_clipboard("a\u{1b}]52;c;cm0=\u{7}b", "a\\u001b]52;c;cm0=\\u0007b")]
    #[case::the_screen("a\u{1b}[2Jb", "a\\u001b[2Jb")]
    #[case::the_line("ready\rstalled", "ready\\u000dstalled")]
    #[case::in_one_character("a\u{9b}2Jb", "a\\u009b2Jb")]
    #[case::a_style_that_hides("a\u{1b}[8mb", "a\\u001b[8mb")]
    #[case::a_style_that_hides_in_red("a\u{1b}[31;8mb", "a\\u001b[31;8mb")]
    #[case::a_style_without_an_end("a\u{1b}[31", "a\\u001b[31")]
    #[case::a_query_that_ends_as_a_style("a\u{1b}[>4;2mb", "a\\u001b[>4;2mb")]
    fn what_a_terminal_would_act_on_is_shown(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(visible(text), shown);
    }

    #[test]
    fn lines_tabs_styles_and_all_letters_stay_as_they_are() {
        let text = "NAME\tWHY\n\u{1b}[1mcarts\u{1b}[0m \u{1b}[1;31mStalled\u{1b}[m größer 日本 …\n";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn programs_read_the_same_json() {
        let value = json!({"message": "a\u{1b}]0;b\u{7}\u{9d}\u{7f}\r\n"});
        let shown = visible(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!shown.contains(is_command), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
