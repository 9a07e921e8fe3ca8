//! Text of a bounded length, for the fields of the API that have one. Pure.

/// The text cut to at most `limit` bytes, at the end of a character, with an ellipsis where something was cut.
#[must_use]
pub fn truncated(mut text: String, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
    text
}
