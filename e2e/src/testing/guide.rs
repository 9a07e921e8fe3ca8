//! A page of the documentation as a program: takes its commands and values apart, runs the commands as a reader would,
//! and says at the end whether any was left out. Called by the tests of the chart and of the demo.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::NamedTempFile;
use tokio::time::Instant;

use super::operator::binary;
use crate::chart;
use crate::programs::Family;

/// The page that everybody reads first.
pub const README: &str = "README.md";
/// The page that is typed at a prompt.
pub const TUTORIAL: &str = "docs/tutorial.md";
/// Pages that are not about the demo: two install or change a release, one is about the Go operator, and one reads a Secret that
/// its reader has made.
const OF_OTHER_CLUSTERS: [&str; 4] =
    ["docs/install.md", "docs/secure-metrics.md", "docs/changing-over.md", "docs/clients.md"];
/// What only an installed operator has. `tests/documents/main.rs` holds that a page says so before such commands: all others work
/// on the demo too.
pub const OF_THE_RELEASE: [&str; 4] =
    ["helm ", "-n memcached-operator-system", "--namespace memcached-operator-system", "$operator"];
/// How many seconds the commands of a page may take that is typed: the half hour that the tutorial promises.
const HALF_AN_HOUR: i64 = 30 * 60;

/// A page, and what a reader has in the shell.
pub struct Guide {
    text: String,
    path: OsString,
    kubeconfig: PathBuf,
    done: BTreeSet<String>,
}

impl Guide {
    /// A page of this repository, for a reader whose kubectl and helm use this kubeconfig.
    ///
    /// # Errors
    /// When there is no such page, or kubectl or helm cannot be built.
    pub fn open(page: &str, kubeconfig: PathBuf) -> Result<Self> {
        let operator = binary()?.parent().context("a program is in a folder")?.to_owned();
        let folders = [Family::Helm.build()?, Family::Kubernetes.build()?, operator];
        let usual = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(folders.into_iter().chain(env::split_paths(&usual)))?;
        Ok(Self { text: read(page)?, path, kubeconfig, done: BTreeSet::new() })
    }

    /// The page of a reader who puts other words in the place of these.
    ///
    /// # Errors
    /// When the page does not have them.
    pub fn with(mut self, words: &str, others: &str) -> Result<Self> {
        ensure!(self.text.contains(words), "the page has no {words:?}");
        self.text = self.text.replace(words, others);
        Ok(self)
    }

    /// Runs the first commands of a section that were not run yet; gives what they print, and prints how long they took.
    ///
    /// # Errors
    /// When all were run already, or as [`Guide::shell`].
    pub fn run(&mut self, section: &str) -> Result<String> {
        let text = self.text.split("\n## ").find(|text| text.starts_with(section));
        let mut commands = blocks(text.with_context(|| format!("no section {section}"))?, "sh").into_iter();
        let block = commands.find(|block| !self.done.contains(block)).context("all was run already")?;
        let start = Instant::now();
        let output = self.shell(&block).with_context(|| section.to_owned())?;
        println!("{}: {section}: {:.0} s", title(&self.text), start.elapsed().as_secs_f32());
        self.done.insert(block);
        Ok(output)
    }

    /// What these commands print.
    ///
    /// # Errors
    /// When one fails or warns: the last lines of what the shell traced. All of it is printed then.
    pub fn shell(&self, block: &str) -> Result<String> {
        // Not the caches of whoever runs the tests.
        let home = chart::helm()?;
        let own = home.get_envs().filter(|(name, _)| name.to_string_lossy().starts_with("HELM_"));
        let mut shell = Command::new("/bin/sh");
        shell.args(["-euxc", block]).current_dir(chart::repository());
        shell.envs(own.filter_map(|(name, value)| Some((name, value?))));
        shell.env("PATH", &self.path).env("KUBECONFIG", &self.kubeconfig);
        shell.env("KUBECACHEDIR", self.kubeconfig.with_extension("cache"));
        quiet(&mut shell)
    }

    /// Runs all commands of the page in one shell, from its beginning to its end, and finds in what is printed all that the page
    /// shows in blocks `console`.
    ///
    /// # Errors
    /// When something else is printed, or as [`Guide::shell`].
    pub fn run_all(&self) -> Result<()> {
        self.run_all_but(&[])
    }

    /// Runs all commands of the page as [`Guide::run_all`], but for the blocks that have one of these words.
    ///
    /// # Errors
    /// As [`Guide::run_all`].
    pub fn run_all_but(&self, words: &[&str]) -> Result<()> {
        let mut program = blocks(&self.text, "sh");
        program.retain(|block| !words.iter().any(|word| block.contains(word)));
        let printed = self.shell(&program.concat())?;
        finds(&printed, blocks(&self.text, "console").concat().lines())
    }

    /// Runs what a reader types at a prompt, in this folder, and finds in what is printed all that the page shows but
    /// ages. A line that begins with a space goes on with the command above it. Prints how long each section took.
    ///
    /// # Errors
    /// When something else is printed, when all sections together take more than half an hour, or as [`Guide::shell`].
    pub fn type_in(&self, folder: &Path) -> Result<()> {
        let is_typed = |line: &&str| line.starts_with("$ ") || line.starts_with(' ');
        let times = NamedTempFile::new()?;
        let look_at_the_clock = format!("date +%s >> {}", times.path().display());
        let mut program = vec![format!("cd {}", folder.display()), look_at_the_clock.clone()];
        let mut sections = Vec::new();
        for section in self.text.split("\n## ") {
            let block = blocks(section, "console").concat();
            let typed = block.lines().filter(is_typed).map(|line| line.strip_prefix("$ ").unwrap_or(line));
            let before = program.len();
            program.extend(typed.map(str::to_owned));
            if program.len() > before {
                program.push(look_at_the_clock.clone());
                sections.push(title(section));
            }
        }
        let printed = self.shell(&program.join("\n"));
        let in_time = took(title(&self.text), &sections, &std::fs::read_to_string(times.path())?);
        let shown = blocks(&self.text, "console").concat();
        finds(&printed?, shown.lines().filter(|line| !is_typed(line)))?;
        in_time
    }

    /// Types the README in this folder, where its reader has saved the first resource.
    ///
    /// # Errors
    /// As [`Guide::type_in`].
    pub fn type_readme(&self, folder: &Path) -> Result<()> {
        let resource = blocks(&self.text, "yaml").into_iter().next().context("a resource")?;
        std::fs::write(folder.join("cache.yaml"), resource)?;
        self.type_in(folder)
    }

    /// Types the tutorial in this folder, to which its reader has gone from the clone, and where the resource is saved.
    ///
    /// # Errors
    /// As [`Guide::type_in`].
    pub fn type_tutorial(self, folder: &Path) -> Result<()> {
        std::fs::write(folder.join("shop.yaml"), blocks(&self.text, "yaml").concat())?;
        self.with("clone=$PWD", &format!("clone={}", chart::repository().display()))?.type_in(folder)
    }

    /// Every command of the page was run.
    ///
    /// # Errors
    /// When one was not.
    pub fn is_done(&self) -> Result<()> {
        let rest: Vec<_> =
            blocks(&self.text, "sh").into_iter().filter(|it| !self.done.contains(it)).collect();
        ensure!(rest.is_empty(), "never run: {rest:?}");
        Ok(())
    }
}

/// The heading of a page, or of a section.
fn title(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_start_matches("# ")
}

/// Prints how long each section of a page took, and all together. `times`: a line for the beginning of the first section, and
/// one for the end of each, as far as they ended. Fails where all together took more than half an hour.
fn took(page: &str, sections: &[&str], times: &str) -> Result<()> {
    let times: Vec<i64> = times.lines().filter_map(|line| line.parse().ok()).collect();
    for (section, time) in sections.iter().zip(times.windows(2)) {
        println!("{page}: {section}: {} s", time[1] - time[0]);
    }
    let all = times.last().zip(times.first()).map_or(0, |(end, beginning)| end - beginning);
    println!("{page}: all sections: {all} s");
    ensure!(all <= HALF_AN_HOUR, "{page}: all sections took {all} s, and half an hour is {HALF_AN_HOUR} s");
    Ok(())
}

/// All of these lines are printed, but for ages in them.
fn finds<'a>(printed: &str, shown: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let is_age = |word: &str| word.strip_suffix('s').is_some_and(|it| it.parse::<u32>().is_ok());
    let words = |line: &str| -> Vec<_> {
        line.split_whitespace().filter(|word| !is_age(word)).map(str::to_owned).collect()
    };
    let lines: Vec<_> = printed.lines().map(words).collect();
    for line in shown {
        ensure!(lines.contains(&words(line)), "no line {line:?} in {printed}");
    }
    Ok(())
}

/// Whether a line is a warning of kubectl, of helm, or of helm's log. What the shell traces begins with a plus.
fn warns(line: &str) -> bool {
    let of_log = line.starts_with("time=") && line.contains(" level=WARN");
    of_log || ["Warning:", "WARNING", "level=WARN"].iter().any(|beginning| line.starts_with(beginning))
}

/// What a program prints, where it succeeds and nothing warns: a reader would ask what he did wrong.
fn quiet(program: &mut Command) -> Result<String> {
    // Files and no pipes: what a page that fails leaves in the background, such as a forwarded port, would hold a pipe open,
    // and the failure would never be told.
    let [mut printed, mut errors] = [tempfile::tempfile()?, tempfile::tempfile()?];
    let status = program.stdout(printed.try_clone()?).stderr(errors.try_clone()?).status()?;
    let text = |file: &mut File| -> Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let errors = text(&mut errors)?;
    let printed = text(&mut printed)?;
    let warning = errors.lines().find(|line| warns(line));
    if !status.success() || warning.is_some() {
        println!("{printed}\n{errors}");
    }
    ensure!(status.success(), "{status}, after:\n{}", last_lines(&errors));
    if let Some(warning) = warning {
        bail!("a command warns: {warning}");
    }
    Ok(printed)
}

/// The end of a text, as much as the summary of all tests prints of an error.
fn last_lines(text: &str) -> String {
    let mut last: Vec<_> = text.lines().rev().take(6).collect();
    last.reverse();
    last.join("\n")
}

/// The pages of `docs` that have commands, in their order.
///
/// # Errors
/// When they cannot be read.
pub fn pages() -> Result<Vec<String>> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(chart::repository().join("docs"))? {
        let page = format!("docs/{}", entry?.file_name().display());
        if !blocks(&read(&page)?, "sh").is_empty() {
            pages.push(page);
        }
    }
    pages.sort();
    Ok(pages)
}

/// Those of [`pages`] that are read on the demo.
///
/// # Errors
/// As [`pages`].
pub fn pages_of_the_demo() -> Result<Vec<String>> {
    let mut pages = pages()?;
    pages.retain(|page| !OF_OTHER_CLUSTERS.contains(&page.as_str()));
    Ok(pages)
}

/// Those of [`pages`] that are read beside a release: they have commands that only work there, or are not read on the demo.
///
/// # Errors
/// As [`pages`].
pub fn pages_of_a_release() -> Result<Vec<String>> {
    let mut kept = Vec::new();
    for page in pages()? {
        let has_words = |block: &String| OF_THE_RELEASE.iter().any(|word| block.contains(word));
        if OF_OTHER_CLUSTERS.contains(&page.as_str()) || blocks(&read(&page)?, "sh").iter().any(has_words) {
            kept.push(page);
        }
    }
    Ok(kept)
}

/// The text of a page.
///
/// # Errors
/// When it cannot be read.
pub fn read(page: &str) -> Result<String> {
    let path = chart::repository().join(page);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The blocks of code in this language.
pub fn blocks(text: &str, language: &str) -> Vec<String> {
    let fenced = text.split("```").skip(1).step_by(2);
    let of_language = fenced.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    of_language.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// A page of which somebody who has no cluster types everything.
    fn typed(page: &str) -> Result<()> {
        let folder = tempfile::TempDir::new()?;
        let path = env::var_os("PATH").unwrap_or_default();
        let kubeconfig = folder.path().join("none");
        Guide { text: page.to_owned(), path, kubeconfig, done: BTreeSet::new() }.type_in(folder.path())
    }

    #[test]
    fn what_a_page_shows_is_printed_and_a_warning_is_a_failure() -> Result<()> {
        typed("```console\n$ say() {\n    echo \"$1, 9s\"\n }\n$ say here\nhere, 7s\n```")?;
        let other = typed("```console\n$ echo here\nthere\n```").err().context("another word is printed")?;
        assert!(other.to_string().contains("no line \"there\""), "{other:#}");
        typed("```console\n$ echo level=INFO msg=WARNING >&2\n```")?;
        for warning in ["Warning: old", "WARNING: old", "level=WARN msg=old", "time=now level=WARN msg=old"] {
            let warned = typed(&format!("```console\n$ echo {warning} >&2\n```")).err().context(warning)?;
            assert!(format!("{warned:#}").contains("a command warns"), "{warned:#}");
        }
        Ok(())
    }

    #[test]
    fn each_page_is_read_somewhere_and_pages_that_are_read_on_the_demo_alone_need_no_release() -> Result<()> {
        let [demo, release] = [pages_of_the_demo()?, pages_of_a_release()?];
        let alone: Vec<_> = demo.iter().filter(|page| !release.contains(page)).collect();
        ensure!(
            pages()?.iter().all(|page| release.contains(page) || alone.contains(&page)),
            "one is not read"
        );
        ensure!(alone.iter().any(|page| *page == "docs/rotation.md"), "only these: {alone:?}");
        for page in alone {
            let text = blocks(&read(page)?, "sh").concat();
            ensure!(
                !text.contains("helm") && !text.contains("memcached-operator-system"),
                "{page} needs a release"
            );
        }
        Ok(())
    }

    #[test]
    fn a_page_that_takes_more_than_half_an_hour_is_a_failure() -> Result<()> {
        took("Tutorial", &["Begin", "End"], "100\n1000\n1900\n")?;
        let late = took("Tutorial", &["Begin", "End"], "100\n1000\n1901\n").err().context("it is late")?;
        assert!(late.to_string().contains("took 1801 s"), "{late:#}");
        Ok(())
    }

    #[test]
    fn the_command_that_fails_is_told_and_not_the_whole_page() -> Result<()> {
        let before = "$ true\n".repeat(50);
        let failed = typed(&format!("```console\n{before}$ ls /none\n```")).err().context("it fails")?;
        let failed = failed.to_string();
        assert!(failed.contains("\n+ ls /none\nls: "), "{failed}");
        assert!(failed.lines().count() < 8, "{failed}");
        Ok(())
    }

    #[test]
    fn a_page_that_fails_is_told_of_though_something_of_it_goes_on_in_the_background() -> Result<()> {
        let failed = typed("```console\n$ sleep 600 &\n$ echo \"left: $!\" >&2\n$ false\n```")
            .err()
            .context("it fails")?;
        let failed = format!("{failed:#}");
        let left = failed.lines().find_map(|line| line.trim().strip_prefix("left: ")?.parse().ok());
        let left = left.and_then(Pid::from_raw).with_context(|| failed.clone())?;
        kill_process(left, Signal::TERM).context("it was waited for")
    }
}
