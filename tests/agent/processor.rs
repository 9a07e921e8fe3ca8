//! What the kernel counted of the processors: how long a process computed, and how long it waited for its turn to. The second
//! is the machine's load, and no property of the agent.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long the first thread of a process computed.
pub(crate) fn used_by(pid: u32) -> Duration {
    schedstat(Path::new(&format!("/proc/{pid}/schedstat")))[0]
}

/// How long this thread waited for a processor while it had something to compute, from its begin on.
pub(crate) fn awaited_here() -> Duration {
    schedstat(Path::new("/proc/thread-self/schedstat"))[1]
}

/// Time on a processor, and time in its queue.
fn schedstat(path: &Path) -> [Duration; 2] {
    let text = fs::read_to_string(path).unwrap();
    let mut figures = text.split(' ').map(|figure| Duration::from_nanos(figure.parse().unwrap()));
    [figures.next().unwrap(), figures.next().unwrap()]
}
