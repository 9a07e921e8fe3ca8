//! A table of shares: takes columns, prints them as the page has them, and reads the page's own. Says whether both agree.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::chart::repository;

/// A row is a ring, a column is what has happened.
pub(crate) struct Table {
    /// The heading on the page.
    pub(crate) heading: &'static str,
    /// The names of the rows.
    pub(crate) rings: Vec<&'static str>,
    /// Title and shares in percent.
    pub(crate) columns: Vec<(&'static str, Vec<i32>)>,
}

impl Table {
    /// Ring and share of a column, from top to bottom.
    pub(crate) fn column(&self, title: &str) -> Result<Vec<(&'static str, i32)>> {
        let column = self.columns.iter().find(|it| it.0 == title).context("there is no such column")?;
        Ok(self.rings.iter().copied().zip(column.1.iter().copied()).collect())
    }

    fn head(&self) -> String {
        let titles: Vec<_> = self.columns.iter().map(|it| it.0).collect();
        format!("| ring | {} |\n|---{}|", titles.join(" | "), "|---".repeat(titles.len()))
    }

    fn row(&self, number: usize) -> Vec<i32> {
        self.columns.iter().map(|(_, shares)| shares[number]).collect()
    }

    pub(crate) fn print(&self) {
        println!("### {}\n{}", self.heading, self.head());
        for (number, ring) in self.rings.iter().enumerate() {
            let shares: Vec<_> = self.row(number).iter().map(|share| format!("{share} %")).collect();
            println!("| {ring} | {} |", shares.join(" | "));
        }
    }

    /// These rings and columns with the shares that `docs/clients.md` shows.
    pub(crate) fn of_the_page(&self) -> Result<Self> {
        let page = fs::read_to_string(repository().join("docs/clients.md"))?;
        let after = page.split_once(&format!("### {}\n", self.heading));
        let (_, after) = after.with_context(|| format!("the page lacks the heading {}", self.heading))?;
        let section = after.split("\n#").next().unwrap_or_default();
        ensure!(section.contains(&self.head()), "{}: the page lacks\n{}", self.heading, self.head());
        let mut columns: Vec<_> = self.columns.iter().map(|(title, _)| (*title, Vec::new())).collect();
        for ring in &self.rings {
            let row = section.lines().find(|line| line.starts_with(&format!("| {ring} |")));
            let cells = row.with_context(|| format!("no row {ring}"))?.split('|').skip(2);
            let shares = cells.filter_map(|cell| cell.trim().strip_suffix(" %")?.parse::<i32>().ok());
            let shares: Vec<_> = shares.collect();
            ensure!(shares.len() == columns.len(), "{}, {ring}: the page says {shares:?}", self.heading);
            columns.iter_mut().zip(shares).for_each(|((_, column), share)| column.push(share));
        }
        Ok(Self { heading: self.heading, rings: self.rings.clone(), columns })
    }

    /// Whether another table shows what this one does, the shares of each ring and column within so many points.
    pub(crate) fn is_shown_by(&self, other: &Self, tolerance: impl Fn(&str, &str) -> i32) -> Result<()> {
        for (number, ring) in self.rings.iter().enumerate() {
            let (shown, measured) = (other.row(number), self.row(number));
            let near = |((column, _), (shown, measured)): (&(&str, _), (&i32, &i32))| {
                (shown - measured).abs() <= tolerance(ring, column)
            };
            let agree = self.columns.iter().zip(shown.iter().zip(&measured)).all(near);
            ensure!(agree, "{}, {ring}: measured {measured:?}, the page says {shown:?}", self.heading);
        }
        Ok(())
    }
}
