//! What was measured, part by part: takes a folder and how to measure a part, gives what is there of the same operator, or
//! measures it and writes it down. So a run that was cut off goes on where it was. IO; called by [`super::run`].

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::testing::operator;

/// Whether parts that were measured before count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    /// Those of the same operator.
    Counts,
    /// Everything is measured anew.
    IsOld,
}

/// The parts that are done, a file each.
#[derive(Debug)]
pub(super) struct Kept {
    folder: PathBuf,
    /// A hash of the operator's binary.
    operator: String,
    earlier: Earlier,
}

/// A file.
#[derive(Debug, Serialize, Deserialize)]
struct Part<T> {
    operator: String,
    measured: T,
}

impl Kept {
    /// The parts in a folder, which is made where it is missing.
    ///
    /// # Errors
    /// When the operator is not built, or the folder cannot be made.
    pub(super) fn open(folder: PathBuf, earlier: Earlier) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let program = operator::binary()?;
        let bytes = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
        let hash = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { folder, operator: hash, earlier })
    }

    /// What is known of a part, which is measured where nothing is.
    ///
    /// # Errors
    /// When it cannot be measured or written down.
    pub(super) async fn part<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        measure: impl AsyncFnOnce() -> Result<T>,
    ) -> Result<T> {
        let file = self.folder.join(format!("{name}.json"));
        let earlier = || serde_json::from_slice::<Part<T>>(&fs::read(&file).ok()?).ok();
        if self.earlier == Earlier::Counts
            && let Some(part) = earlier().filter(|part| part.operator == self.operator)
        {
            eprintln!("{name}: as it was measured before");
            return Ok(part.measured);
        }
        let part = Part { operator: self.operator.clone(), measured: measure().await? };
        let text = serde_json::to_vec_pretty(&part).context("figures are JSON")?;
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(part.measured)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn kept(folder: &tempfile::TempDir, operator: &str, earlier: Earlier) -> Kept {
        Kept { folder: folder.path().to_owned(), operator: operator.to_owned(), earlier }
    }

    #[tokio::test]
    async fn a_part_that_is_done_is_not_measured_again_unless_the_operator_is_another() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let first = kept(&folder, "a", Earlier::Counts).part("speed", async || Ok(1)).await?;
        let again = kept(&folder, "a", Earlier::Counts).part("speed", async || Ok(2)).await?;
        let remeasured = kept(&folder, "a", Earlier::IsOld).part("speed", async || Ok(3)).await?;
        let of_another = kept(&folder, "b", Earlier::Counts).part("speed", async || Ok(4)).await?;
        assert_eq!([first, again, remeasured, of_another], [1, 1, 3, 4]);
        Ok(())
    }

    #[tokio::test]
    async fn a_part_that_fails_is_not_kept() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let kept = kept(&folder, "a", Earlier::Counts);
        assert!(kept.part::<u8>("speed", async || bail!("no cluster")).await.is_err());
        assert_eq!(kept.part("speed", async || Ok(2)).await?, 2);
        Ok(())
    }
}
