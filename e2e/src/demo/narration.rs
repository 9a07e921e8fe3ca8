//! What the demo tells its reader, line by line: takes text, prints it. Called by the demo.

/// The headline of the next step.
pub(super) fn chapter(number: u8, title: &str) {
    println!("\n{number}. {title}");
}

/// What a person would type to the same effect.
pub(super) fn shell(command: &str) {
    println!("   $ {command}");
}

/// A line below the headline.
pub(super) fn say(text: &str) {
    println!("   {text}");
}
