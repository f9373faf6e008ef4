//! What happens on the scene.

use super::scene::Scene;
use super::{Handed, Measured, Order, SERVER, Told};
use crate::fail::{Fail, Result};
use std::time::Duration;

/// How long the client has slept before its server is killed.
const ASLEEP_NS: u64 = 500_000;

/// A death, as the client learned of it.
#[derive(Clone, Debug)]
pub struct Death {
    /// The error.
    pub error: String,
    /// Its code.
    pub code: i32,
    /// From right before the kill until the call was back.
    pub took_ns: u64,
}

fn strange(told: &Told) -> Fail {
    Fail::plain(format!("the client tells something else: {told:?}"))
}

/// Lets the client find the server.
pub fn find(scene: &mut Scene) -> Result<i32> {
    scene.order(Order::Find)?;
    match scene.told()? {
        Told::Found(address) => Ok(address),
        told => Err(strange(&told)),
    }
}

/// Lets it call so many times.
pub fn calls(scene: &mut Scene, count: u32) -> Result<Vec<u64>> {
    scene.order(Order::Calls(count))?;
    match scene.told()? {
        Told::Called(times) => Ok(times),
        told => Err(strange(&told)),
    }
}

/// Lets it measure.
pub fn measure(scene: &mut Scene) -> Result<Vec<Measured>> {
    scene.order(Order::Measure)?;
    match scene.told()? {
        Told::Measured(measured) => Ok(measured),
        told => Err(strange(&told)),
    }
}

/// Lets it hand a block over, beside copying it.
pub fn hand_over(scene: &mut Scene) -> Result<Handed> {
    scene.order(Order::Block)?;
    match scene.told()? {
        Told::Handed(handed) => Ok(handed),
        told => Err(strange(&told)),
    }
}

/// Kills the server while the client's call waits for its answer.
pub fn kill(scene: &mut Scene, client: i32) -> Result<Death> {
    let before = look(scene, client)?;
    scene.order(Order::Hang)?;
    until_it_waits(scene, client, before.taken)?;
    let before_ns = scene.kill_server()?;
    match scene.told()? {
        Told::Died { error, code, at_ns } => {
            Ok(Death { error, code, took_ns: at_ns.saturating_sub(before_ns) })
        }
        told => Err(strange(&told)),
    }
}

/// What the node says of the two.
struct Seen {
    /// Messages that the server has taken.
    taken: u64,
    /// For how long the client sleeps in sendrec.
    asleep_ns: u64,
}

fn look(scene: &mut Scene, client: i32) -> Result<Seen> {
    let vm = scene.vm.id();
    let members = scene.node()?.endpoints(vm)?;
    let server = members.iter().find(|member| member.names.iter().any(|name| name == SERVER));
    let wait = members.iter().find(|member| member.pid == client).map(|member| &member.wait);
    Ok(Seen {
        taken: server.map_or(0, |server| server.received),
        asleep_ns: wait
            .filter(|wait| wait.verb.starts_with("sendrec"))
            .map_or(0, |wait| wait.for_ns),
    })
}

/// Until the server has taken one more request, and the client sleeps over it.
fn until_it_waits(scene: &mut Scene, client: i32, taken: u64) -> Result<()> {
    for _ in 0..10_000 {
        let seen = look(scene, client)?;
        if seen.taken > taken && seen.asleep_ns > ASLEEP_NS {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Err(Fail::plain("the client's call does not come to wait"))
}
