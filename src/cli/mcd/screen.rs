//! Prints views: as text, in colours where the terminal wants them, or for programs; once, or again and again. IO; called by
//! every command that shows something.

use std::io::{ErrorKind, IsTerminal as _, Write};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

use super::options::ScreenArgs;
use crate::cli::output::{Format, Output};
use crate::cli::stdout;
use crate::cli::visible::visible;

/// How long `--watch` waits between two looks.
const PACE: Duration = Duration::from_secs(2);
/// Clears a terminal, and goes to its upper left corner.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

/// Something to show: the same thing for programs and for people.
#[derive(Clone, Debug)]
pub struct Shown {
    value: Value,
    text: String,
}

impl Shown {
    /// A view, and how people read it.
    ///
    /// # Errors
    /// When the view does not serialise.
    pub fn new<V: Serialize>(view: &V, text: impl FnOnce(&V) -> String) -> Result<Self> {
        Ok(Self { value: serde_json::to_value(view)?, text: text(view) })
    }

    /// As it is printed.
    fn printed(&self, args: ScreenArgs) -> Result<String> {
        Ok(match args.output.for_programs() {
            None => self.text.clone(),
            // A program that reads a stream wants one document a line, or documents that are told apart.
            Some(Format::Json) if args.watch => format!("{}\n", self.value),
            Some(Format::Yaml) if args.watch => format!("---\n{}", Format::Yaml.text(&self.value)?),
            Some(format) => format.text(&self.value)?,
        })
    }

    /// Without the time of the look, which always differs.
    fn content(&self) -> Value {
        let mut content = self.value.clone();
        if let Some(fields) = content.as_object_mut() {
            fields.remove("at");
        }
        content
    }
}

/// Where looks are printed.
trait Screen {
    /// Takes away what was printed before.
    fn clear(&mut self) -> Result<()>;
    /// Prints a look.
    fn print(&mut self, text: &str) -> Result<()>;
    /// Says why there is no newer look.
    fn complain(&mut self, error: &str);
}

/// Standard output and standard error.
struct Standard;

impl Screen for Standard {
    /// As it is: who wants no colours (`NO_COLOR`) still has a terminal that can be cleared.
    fn clear(&mut self) -> Result<()> {
        stdout::send(CLEAR)
    }

    fn print(&mut self, text: &str) -> Result<()> {
        print(text)
    }

    fn complain(&mut self, error: &str) {
        anstream::eprintln!("{}", visible(error));
    }
}

/// Shows what `look` gives: once, or under `--watch` until somebody interrupts it. Then a terminal always shows the newest look,
/// and everything else gets each look that differs from the one before.
///
/// # Errors
/// Those of the first look, or when nothing can be printed. A later look that fails is said once, and the next one follows: an
/// API server that restarts ends no `--watch`.
pub async fn show(args: ScreenArgs, look: impl AsyncFnMut() -> Result<Shown>) -> Result<()> {
    let can_clear = std::env::var_os("TERM").is_none_or(|it| it != "dumb");
    let redraws = args.watch && args.output == Output::Text && std::io::stdout().is_terminal() && can_clear;
    show_on(&mut Standard, redraws, args, look).await
}

async fn show_on(
    screen: &mut impl Screen,
    redraws: bool,
    args: ScreenArgs,
    mut look: impl AsyncFnMut() -> Result<Shown>,
) -> Result<()> {
    let (mut last, mut complaint) = (None, String::new());
    loop {
        match look().await {
            Ok(shown) => {
                let content = shown.content();
                if redraws {
                    let text = shown.printed(args)?;
                    screen.clear()?;
                    screen.print(&text)?;
                } else if last.as_ref() != Some(&content) {
                    screen.print(&shown.printed(args)?)?;
                }
                if !args.watch {
                    return Ok(());
                }
                last = Some(content);
                complaint.clear();
            }
            Err(error) if last.is_none() => return Err(error),
            Err(error) => {
                let now = format!("{error:#}; looking again");
                if now != complaint {
                    screen.complain(&now);
                    complaint = now;
                }
            }
        }
        sleep(PACE).await;
    }
}

/// Prints on standard output; colours only where somebody sees them. What else a terminal would act on is shown.
///
/// # Errors
/// When it cannot be printed. A reader that has seen enough is no error: then the program ends.
pub fn print(text: &str) -> Result<()> {
    print_on(&mut anstream::stdout(), text)
}

fn print_on(stream: &mut impl Write, text: &str) -> Result<()> {
    match stream.write_all(visible(text).as_bytes()).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        printed => printed.context("cannot print"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use anyhow::{anyhow, bail};
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::cli::mcd::text::words::{STRONG, styled};

    #[derive(Default)]
    struct Recorded(Vec<String>);

    impl Screen for Recorded {
        fn clear(&mut self) -> Result<()> {
            self.0.push("clear".to_owned());
            Ok(())
        }

        fn print(&mut self, text: &str) -> Result<()> {
            self.0.push(text.to_owned());
            Ok(())
        }

        fn complain(&mut self, error: &str) {
            self.0.push(format!("! {error}"));
        }
    }

    /// What is printed of these looks in the time that they take.
    async fn printed(redraws: bool, output: Output, looks: &[&str]) -> Vec<String> {
        let mut left: VecDeque<&str> = looks.iter().copied().collect();
        let mut screen = Recorded::default();
        let args = ScreenArgs { output, watch: true };
        let look = async || {
            let said = left.pop_front().ok_or_else(|| anyhow!("no more looks"))?;
            match said.strip_prefix('!') {
                Some(error) => bail!("{error}"),
                None => Shown::new(&json!({"at": left.len(), "said": said}), |_| format!("{said}\n")),
            }
        };
        let time = PACE * u32::try_from(looks.len()).unwrap() - PACE / 2;
        // It goes on until it is interrupted, but for a first look that fails.
        if let Ok(Err(error)) = timeout(time, show_on(&mut screen, redraws, args, look)).await {
            screen.complain(&format!("ended: {error}"));
        }
        screen.0
    }

    #[test]
    fn of_what_is_printed_a_terminal_takes_colours_and_nothing_else() {
        let bold = styled(STRONG, "carts");
        let mut printed = Vec::new();
        print_on(&mut printed, &format!("{bold} said \u{1b}]52;c;cm0=\u{7}\u{1b}[2J\n")).unwrap();
        let expected = format!("{bold} said \\u001b]52;c;cm0=\\u0007\\u001b[2J\n");
        assert_eq!(String::from_utf8(printed).unwrap(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_shows_every_look_and_everything_else_each_that_differs() {
        let looks = ["a", "a", "b"];
        let redrawn = ["clear", "a\n", "clear", "a\n", "clear", "b\n"];
        assert_eq!(printed(true, Output::Text, &looks).await, redrawn);
        assert_eq!(printed(false, Output::Text, &looks).await, ["a\n", "b\n"]);
        let documents = ["{\"at\":2,\"said\":\"a\"}\n", "{\"at\":0,\"said\":\"b\"}\n"];
        assert_eq!(printed(false, Output::Json, &looks).await, documents);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_fails_is_said_once_and_ends_nothing_but_the_first() {
        let looks = ["a", "!no answer", "!no answer", "a", "!no answer", "b"];
        let complaint = "! no answer; looking again";
        assert_eq!(printed(false, Output::Text, &looks).await, ["a\n", complaint, complaint, "b\n"]);
        assert_eq!(printed(false, Output::Text, &["!no such cache", "a"]).await, ["! ended: no such cache"]);
    }
}
