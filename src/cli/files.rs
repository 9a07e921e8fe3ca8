//! The files that commands take: files, folders and standard input. IO.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::ValueHint;

/// What a folder is searched for, as `kubectl` does.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// The files that a command reads.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Files {
    /// A file or a folder of YAML or JSON; - for standard input. Can be given more than once
    #[arg(short = 'f', long = "filename", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    filename: Vec<PathBuf>,
    /// More files or folders, as a shell makes them of *.yaml
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Search folders in folders too
    #[arg(short = 'R', long)]
    recursive: bool,
}

/// A file that was read.
pub(super) struct Text {
    /// The file as it was named.
    pub(super) file: String,
    pub(super) text: String,
}

impl Files {
    /// Whether any was named.
    pub(super) fn is_empty(&self) -> bool {
        let Self { filename, paths, recursive: _ } = self;
        filename.is_empty() && paths.is_empty()
    }

    /// Reads all of them, in the order in which they were named; those of a folder in the order of their names.
    ///
    /// # Errors
    /// When one cannot be read, or a folder holds none.
    pub(super) fn read(&self) -> Result<Vec<Text>> {
        let Self { filename, paths, recursive } = self;
        let mut files = Vec::new();
        for path in filename.iter().chain(paths) {
            if path.is_dir() {
                let before = files.len();
                search(path, *recursive, &mut files)?;
                let hint = if *recursive { "" } else { "; -R searches the folders in it too" };
                ensure!(
                    files.len() > before,
                    "the folder {} holds no .yaml, .yml or .json file{hint}",
                    path.display()
                );
            } else {
                files.push(path.clone());
            }
        }
        files.iter().map(|file| Ok(Text { file: file.display().to_string(), text: read(file)? })).collect()
    }
}

fn search(folder: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || format!("cannot read the folder {}", folder.display());
    let entries = fs::read_dir(folder).with_context(failed)?;
    let mut paths: Vec<_> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().with_context(failed)?;
    paths.sort();
    for path in paths {
        // A link to a folder may lead back here; `kubectl` follows none either.
        if path.is_dir() {
            if recursive && !path.is_symlink() {
                search(&path, recursive, files)?;
            }
        } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|it| ending == *it)) {
            files.push(path);
        }
    }
    Ok(())
}

/// The text of a file; `-` is standard input.
fn read(file: &Path) -> Result<String> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    text.with_context(|| {
        let may_be_file = file == Path::new("-") || file.exists() || file.extension().is_some();
        // Other commands take the name of a resource there.
        let hint =
            if may_be_file { "" } else { ": an argument is a file or a folder, not the name of a resource" };
        format!("cannot read {}{hint}", file.display())
    })
}
