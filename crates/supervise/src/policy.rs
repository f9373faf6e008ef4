//! The life of one service, as a state machine without clock, processes and I/O.
//!
//! | state | meaning | next |
//! |---|---|---|
//! | `Stopped` | not wanted, or a needed service is not ready | `Starting`, `OnRequest` |
//! | `OnRequest` | the first request starts it | `Stopped` |
//! | `Starting` | its process runs and is not ready | `Ready`, `BackOff`, `Stopping`, `Ended`, `Failed` |
//! | `Ready` | it serves | `Starting`, `Stopping`, `BackOff`, `Ended`, `Failed` |
//! | `Stopping` | its process got SIGTERM or SIGKILL | `Stopped`, `BackOff` |
//! | `BackOff` | it ended, and starts again at a time | `Stopped` |
//! | `Ended` | it ended by itself, and that is the wish of its configuration | `Stopped` |
//! | `Failed` | it ended too often | `Stopped` |
//!
//! Each start comes from `Stopped`, where a service waits until all that it needs is ready.
//!
//! Each event gives the actions that the supervisor must take. Invariants:
//! - `Spawn` comes only while no process of the service runs.
//! - Each `Terminate` is followed by the end of the process, or by `Kill` after the stop limit.
//! - Between two spawns after a failure lies the back-off, which doubles up to its maximum.

use std::collections::VecDeque;

/// A number of nanoseconds, or a time of CLOCK_MONOTONIC.
pub type Ns = u64;

/// When an ended service starts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// After each end.
    #[default]
    Always,
    /// After each end but an exit with code 0.
    OnFailure,
    /// Never.
    Never,
}

/// When and how often pings come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// From one answered ping to the next one.
    pub every_ns: Ns,
    /// A ping without an answer for this long is a hang.
    pub limit_ns: Ns,
}

/// The rules of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// When it starts again.
    pub restart: Restart,
    /// Whether the first request starts it.
    pub on_request: bool,
    /// The pause before the first restart of a row.
    pub backoff_ns: Ns,
    /// The longest pause.
    pub backoff_max_ns: Ns,
    /// A service that was ready for this long begins a new row of restarts.
    pub stable_ns: Ns,
    /// More restarts than this within the window are too many.
    pub restarts_max: u32,
    /// The window.
    pub window_ns: Ns,
    /// From the spawn until it must be ready.
    pub start_limit_ns: Ns,
    /// From SIGTERM to SIGKILL.
    pub stop_limit_ns: Ns,
    /// Its pings, if it gets any.
    pub ping: Option<Ping>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody could read how.
    Unknown,
    /// With exit code 0 before it was ready, and left this process behind.
    ForkedAway(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Unknown => f.write_str("ended; its exit code is unknown"),
            Self::ForkedAway(pid) => write!(
                f,
                "forked away: its process ended and left process {pid} behind, which got SIGKILL; \
                 a service stays in the foreground"
            ),
            Self::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "killed by signal {number} ({name})"),
                None => write!(f, "killed by signal {number}"),
            },
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// What happens to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is wanted, and all that it needs is ready.
    Start,
    /// The process runs.
    Spawned,
    /// There is no process, for this reason.
    NotSpawned(String),
    /// A client has called its name.
    Requested,
    /// It has bound what its configuration says.
    Bound,
    /// It took the last ping, or the ping went to an endpoint that it has replaced.
    PingTaken,
    /// Its endpoint has ended, and its process runs.
    Lost,
    /// Its process has ended.
    Exited(Exit),
    /// It has to end and start again, for this reason.
    Restart(String),
    /// It has to end.
    Stop,
    /// Time has passed.
    Tick,
}

/// What the supervisor has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the process.
    Spawn,
    /// Send SIGTERM to its process group.
    Terminate,
    /// Send SIGKILL to its process group.
    Kill,
    /// Notify it.
    Ping,
    /// Hold its name until a request comes.
    HoldName,
    /// Give its name up.
    FreeName,
    /// It is ready now.
    BecameReady,
    /// Notify it: this service, which it needs, is ready again.
    Inform(String),
    /// Write this line into the log.
    Log(String),
}

/// The state of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Not wanted, or it waits for what it needs.
    Stopped,
    /// It waits for its first request.
    OnRequest,
    /// Its process runs and is not ready.
    Starting,
    /// It serves.
    Ready,
    /// It has been told to end.
    Stopping,
    /// It starts again later.
    BackOff,
    /// It ended as its configuration wishes.
    Ended,
    /// It ended too often.
    Failed,
}

impl State {
    /// Whether a process of the service may run.
    #[must_use]
    pub fn has_process(self) -> bool {
        matches!(self, Self::Starting | Self::Ready | Self::Stopping)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Stopped => "stopped",
            Self::OnRequest => "on-request",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::BackOff => "back-off",
            Self::Ended => "ended",
            Self::Failed => "failed",
        })
    }
}

/// What follows the end of a process that is stopping. In `Stopped`, what follows when all that the
/// service needs is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AfterStop {
    Stay,
    /// A new process is due, also of a service that starts on request.
    Again,
    /// It hung or did not become ready: this counts as a failure, for this reason.
    Failure(String),
}

/// One service.
#[derive(Clone, Debug)]
pub struct Machine {
    policy: Policy,
    state: State,
    since_ns: Ns,
    /// When the next step is due by time.
    due_ns: Option<Ns>,
    after_stop: AfterStop,
    /// When an unanswered ping becomes a hang.
    ping_ends_ns: Option<Ns>,
    restarts: u32,
    /// The latest restarts, within the window.
    recent: VecDeque<Ns>,
    /// Restarts since it was last stable.
    in_a_row: u32,
    reason: Option<String>,
}

impl Machine {
    /// A stopped service.
    #[must_use]
    pub fn new(policy: Policy, now_ns: Ns) -> Self {
        Self {
            policy,
            state: State::Stopped,
            since_ns: now_ns,
            due_ns: None,
            after_stop: AfterStop::Stay,
            ping_ends_ns: None,
            restarts: 0,
            recent: VecDeque::new(),
            in_a_row: 0,
            reason: None,
        }
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// When it came into its state.
    #[must_use]
    pub fn since_ns(&self) -> Ns {
        self.since_ns
    }

    /// How often it was started again.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Why its latest process ended.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// When a [`Event::Tick`] is due.
    #[must_use]
    pub fn due_ns(&self) -> Option<Ns> {
        self.due_ns
    }

    /// Whether a ping has no answer yet.
    #[must_use]
    pub fn awaits_ping(&self) -> bool {
        self.ping_ends_ns.is_some()
    }

    /// Whether a ping has had no answer for too long.
    #[must_use]
    pub fn is_ping_late(&self, now_ns: Ns) -> bool {
        self.ping_ends_ns.is_some_and(|ends_ns| ends_ns <= now_ns)
    }

    /// Whether it is stopping or stopped, and another process follows.
    #[must_use]
    pub fn starts_again(&self) -> bool {
        matches!(self.state, State::Stopping | State::Stopped) && self.after_stop != AfterStop::Stay
    }

    /// Its earlier failures count no more.
    pub fn forget(&mut self) {
        self.in_a_row = 0;
        self.recent.clear();
    }

    /// Takes new rules, which count from the next step on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// The actions that follow from an event.
    pub fn on(&mut self, event: Event, now_ns: Ns) -> Vec<Action> {
        match event {
            Event::Start => self.start(now_ns),
            Event::Spawned => Vec::new(),
            Event::NotSpawned(why) => self.fail(format!("did not start: {why}"), now_ns),
            Event::Requested if self.state == State::OnRequest => {
                self.start_again(now_ns);
                vec![Action::FreeName]
            }
            Event::Bound if self.state == State::Starting => self.ready(now_ns),
            Event::PingTaken if self.ping_ends_ns.take().is_some() => {
                self.due_ns = self.policy.ping.map(|ping| now_ns.saturating_add(ping.every_ns));
                Vec::new()
            }
            Event::Lost if self.state == State::Ready => {
                self.end_row_if_stable(now_ns);
                let due_ns = now_ns.saturating_add(self.policy.start_limit_ns);
                self.enter(State::Starting, Some(due_ns), now_ns);
                let line = "its endpoint has ended and its process runs; it is looked up again";
                vec![Action::Log(line.to_owned())]
            }
            Event::Exited(exit) => self.exited(exit, now_ns),
            Event::Restart(why) => self.restart(&why, now_ns),
            Event::Stop => self.stop(now_ns),
            Event::Tick if self.due_ns.is_some_and(|due_ns| due_ns <= now_ns) => {
                self.due_ns = None;
                self.tick(now_ns)
            }
            Event::Requested | Event::Bound | Event::PingTaken | Event::Lost | Event::Tick => {
                Vec::new()
            }
        }
    }

    fn enter(&mut self, state: State, due_ns: Option<Ns>, now_ns: Ns) {
        self.state = state;
        self.since_ns = now_ns;
        self.due_ns = due_ns;
        self.ping_ends_ns = None;
    }

    fn start(&mut self, now_ns: Ns) -> Vec<Action> {
        match self.state {
            State::Stopped if self.policy.on_request && !self.starts_again() => {
                self.enter(State::OnRequest, None, now_ns);
                vec![Action::HoldName]
            }
            State::Stopped => self.spawn(now_ns),
            _ => Vec::new(),
        }
    }

    fn spawn(&mut self, now_ns: Ns) -> Vec<Action> {
        let due_ns = now_ns.saturating_add(self.policy.start_limit_ns);
        self.enter(State::Starting, Some(due_ns), now_ns);
        self.after_stop = AfterStop::Stay;
        vec![Action::Spawn]
    }

    /// A new process is due: [`Event::Start`] spawns it.
    fn start_again(&mut self, now_ns: Ns) {
        self.enter(State::Stopped, None, now_ns);
        self.after_stop = AfterStop::Again;
    }

    fn ready(&mut self, now_ns: Ns) -> Vec<Action> {
        let ping_ns = self.policy.ping.map(|ping| now_ns.saturating_add(ping.every_ns));
        self.enter(State::Ready, ping_ns, now_ns);
        vec![Action::Log("is ready".to_owned()), Action::BecameReady]
    }

    fn tick(&mut self, now_ns: Ns) -> Vec<Action> {
        match self.state {
            State::Starting => {
                let limit = seconds(self.policy.start_limit_ns);
                self.kill(format!("was not ready within {limit}"), now_ns)
            }
            State::Ready if self.ping_ends_ns.is_some() => {
                let limit = self.policy.ping.map_or(0, |ping| ping.limit_ns);
                self.kill(format!("hung: took no ping for {}", seconds(limit)), now_ns)
            }
            State::Ready => {
                let Some(ping) = self.policy.ping else { return Vec::new() };
                let ends_ns = now_ns.saturating_add(ping.limit_ns);
                (self.ping_ends_ns, self.due_ns) = (Some(ends_ns), Some(ends_ns));
                vec![Action::Ping]
            }
            State::Stopping => {
                let limit = seconds(self.policy.stop_limit_ns);
                vec![Action::Log(format!("did not end within {limit}; SIGKILL")), Action::Kill]
            }
            State::BackOff => {
                self.restarts = self.restarts.saturating_add(1);
                self.start_again(now_ns);
                Vec::new()
            }
            State::Stopped | State::OnRequest | State::Ended | State::Failed => Vec::new(),
        }
    }

    /// Ends a process that does not answer. SIGTERM would not reach its code.
    fn kill(&mut self, why: String, now_ns: Ns) -> Vec<Action> {
        let said = Action::Log(format!("{why}; SIGKILL"));
        self.end_row_if_stable(now_ns);
        self.enter(State::Stopping, None, now_ns);
        self.after_stop = AfterStop::Failure(why);
        vec![said, Action::Kill]
    }

    fn terminate(&mut self, after: AfterStop, now_ns: Ns) -> Vec<Action> {
        let due_ns = now_ns.saturating_add(self.policy.stop_limit_ns);
        self.enter(State::Stopping, Some(due_ns), now_ns);
        self.after_stop = after;
        vec![Action::Terminate]
    }

    fn stop(&mut self, now_ns: Ns) -> Vec<Action> {
        match self.state {
            State::Starting | State::Ready => self.terminate(AfterStop::Stay, now_ns),
            State::Stopping => {
                self.after_stop = AfterStop::Stay;
                Vec::new()
            }
            state => {
                self.enter(State::Stopped, None, now_ns);
                self.after_stop = AfterStop::Stay;
                if state == State::OnRequest { vec![Action::FreeName] } else { Vec::new() }
            }
        }
    }

    fn restart(&mut self, why: &str, now_ns: Ns) -> Vec<Action> {
        let mut actions = vec![Action::Log(format!("restarts: {why}"))];
        match self.state {
            State::Starting | State::Ready => {
                self.reason = Some(why.to_owned());
                actions.extend(self.terminate(AfterStop::Again, now_ns));
            }
            State::Stopping => self.after_stop = AfterStop::Again,
            State::OnRequest | State::Stopped => return Vec::new(),
            State::BackOff | State::Ended | State::Failed => {
                self.forget();
                self.restarts = self.restarts.saturating_add(1);
                self.start_again(now_ns);
            }
        }
        actions
    }

    fn exited(&mut self, exit: Exit, now_ns: Ns) -> Vec<Action> {
        match self.state {
            State::Stopping => match std::mem::replace(&mut self.after_stop, AfterStop::Stay) {
                AfterStop::Stay => {
                    self.enter(State::Stopped, None, now_ns);
                    vec![Action::Log(format!("stopped: {exit}"))]
                }
                AfterStop::Again => {
                    self.restarts = self.restarts.saturating_add(1);
                    self.start_again(now_ns);
                    Vec::new()
                }
                AfterStop::Failure(why) => self.fail(why, now_ns),
            },
            State::Starting | State::Ready => {
                let is_wished = match self.policy.restart {
                    // Each start would leave one more process behind.
                    _ if matches!(exit, Exit::ForkedAway(_)) => true,
                    Restart::Always => false,
                    Restart::OnFailure => exit == Exit::Code(0),
                    Restart::Never => true,
                };
                if is_wished {
                    self.reason = Some(exit.to_string());
                    let is_failure = exit != Exit::Code(0);
                    let state = if is_failure { State::Failed } else { State::Ended };
                    self.enter(state, None, now_ns);
                    return vec![Action::Log(format!("{exit}; it does not start again"))];
                }
                self.end_row_if_stable(now_ns);
                self.fail(exit.to_string(), now_ns)
            }
            _ => Vec::new(),
        }
    }

    /// A service that was ready for long enough begins a new row of restarts.
    fn end_row_if_stable(&mut self, now_ns: Ns) {
        let since_ns = now_ns.saturating_sub(self.since_ns);
        if self.state == State::Ready && since_ns >= self.policy.stable_ns {
            self.in_a_row = 0;
        }
    }

    /// Begins a pause before the next start, or gives the service up.
    fn fail(&mut self, why: String, now_ns: Ns) -> Vec<Action> {
        let from_ns = now_ns.saturating_sub(self.policy.window_ns);
        self.recent.retain(|at_ns| *at_ns > from_ns);
        self.recent.push_back(now_ns);
        let count = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        if count > self.policy.restarts_max || self.policy.restart == Restart::Never {
            let max = self.policy.restarts_max;
            let window = seconds(self.policy.window_ns);
            self.enter(State::Failed, None, now_ns);
            let line = format!("{why}; given up after {max} restarts within {window}");
            self.reason = Some(why);
            return vec![Action::Log(line)];
        }
        let doubled = self.policy.backoff_ns.saturating_mul(1 << self.in_a_row.min(40));
        let pause_ns = doubled.min(self.policy.backoff_max_ns);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.enter(State::BackOff, Some(now_ns.saturating_add(pause_ns)), now_ns);
        let line = format!("{why}; it starts again in {}", seconds(pause_ns));
        self.reason = Some(why);
        vec![Action::Log(line)]
    }
}

/// A duration for people.
pub(crate) fn seconds(ns: Ns) -> String {
    match ns {
        0..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1_000_000_000) => format!("{} s", ns / 1_000_000_000),
        _ => format!("{}.{} s", ns / 1_000_000_000, ns % 1_000_000_000 / 100_000_000),
    }
}

#[cfg(test)]
mod tests;
