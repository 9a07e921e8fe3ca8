//! Tables as `kubectl get` prints them: a line of headings, columns as wide as their widest cell. Pure; called by the other
//! files of this folder.

use anstyle::Style;

use super::words::styled;

/// Spaces between two columns.
const GAP: usize = 3;

/// One cell.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a colour.
    pub fn with_style(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::with_style(Style::new(), text)
    }
}

/// The table. Every row has as many cells as there are headings.
#[must_use]
pub fn table(headings: &[&str], rows: &[Vec<Cell>]) -> String {
    let width = |text: &str| text.chars().count();
    let headings: Vec<Cell> = headings.iter().map(|it| Cell::from(*it)).collect();
    let lines = || std::iter::once(&headings).chain(rows);
    let widths: Vec<usize> = (0..headings.len())
        .map(|at| lines().filter_map(|line| line.get(at)).map(|cell| width(&cell.text)).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in lines() {
        let mut pending = 0;
        for (cell, widest) in line.iter().zip(&widths) {
            // Spaces are printed before the next cell only: none is left at the end of a line.
            if !cell.text.is_empty() {
                text.push_str(&" ".repeat(pending));
                text.push_str(&styled(cell.style, &cell.text));
                pending = 0;
            }
            pending += widest - width(&cell.text) + GAP;
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::words::BAD;
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_whatever_its_colour() {
        let rows = [
            vec![Cell::from("carts"), Cell::with_style(BAD, "Stalled"), Cell::from("")],
            vec![Cell::from("a-longer-name"), Cell::from("Ready"), Cell::from("why")],
        ];
        let text = anstream::adapter::strip_str(&table(&["NAME", "HEALTH", "WHY"], &rows)).to_string();
        let expected = "\
NAME            HEALTH    WHY
carts           Stalled
a-longer-name   Ready     why
";
        assert_eq!(text, expected);
    }
}
