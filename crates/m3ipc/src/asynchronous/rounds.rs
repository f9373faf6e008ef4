//! Rounds of polls, for loops that poll before they sleep.

use super::AsyncEndpoint;
use super::polling::NextStep;

impl AsyncEndpoint {
    /// Begins a round of polls. In most rounds the descriptor stays silent, since
    /// [`next_step`](Self::next_step) lets another round follow.
    ///
    /// For event loops over several pending messages; end it with [`end_round`](Self::end_round).
    /// The example is at [`next_step`](Self::next_step).
    pub fn begin_round(&mut self) {
        self.endpoint.set_silent(self.polling.is_silent());
    }

    /// Ends a round of polls; `found` says whether it found anything. The example is at
    /// [`next_step`](Self::next_step).
    pub fn end_round(&mut self, found: bool) {
        self.endpoint.set_silent(false);
        if found {
            self.polling.note_news(m3ipc_sys::ticks());
        }
    }

    /// What to do after a round that found nothing.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// use m3ipc::asynchronous::{AsyncEndpoint, NextStep};
    ///
    /// let mut server = AsyncEndpoint::new(server)?;
    /// client.notify(server.endpoint().address())?;
    /// loop {
    ///     server.begin_round();
    ///     let received = server.try_receive_bytes(true);
    ///     server.end_round(received.is_ok());
    ///     if received.is_ok() {
    ///         break;
    ///     }
    ///     match server.next_step() {
    ///         NextStep::Poll => {}
    ///         NextStep::Yield => tokio::task::yield_now().await,
    ///         NextStep::Sleep => server.ready().await,
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_step(&mut self) -> NextStep {
        let step = self.polling.next_step(m3ipc_sys::ticks());
        if step == NextStep::Poll {
            m3ipc_sys::relax();
        }
        step
    }

    /// The step after an attempt that found nothing.
    pub(super) async fn pause(&mut self) {
        match self.next_step() {
            NextStep::Poll => {}
            NextStep::Yield => tokio::task::yield_now().await,
            NextStep::Sleep => self.ready().await,
        }
    }
}
