use super::*;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Collects the texts of spans, records and events.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<String>>>);

impl Collected {
    fn add(&self, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

impl Subscriber for Collected {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "m3ipc"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.add(format!("{:?}", span.values()));
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        self.add(format!("{values:?}"));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.add(format!("{event:?}"));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[test]
fn a_call_tells_its_verb_its_peer_and_its_outcome() {
    let collected = Collected::default();
    tracing::subscriber::with_default(collected.clone(), || {
        let span = call("send", 3, Address(1), Address(29));
        span.end(&Err::<(), _>("endpoint 29 died"));
        death(3, Address(1), Address(29));
    });
    let texts = collected.0.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
    for expected in ["send", "29", "endpoint 29 died", "death"] {
        assert!(texts.contains(expected), "{expected} is missing: {texts}");
    }
}
