//! What happens on the scene.

use super::scene::Scene;
use super::{Measured, Order, Told};
use crate::fail::{Fail, Result};
use std::time::Duration;

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

/// Kills the server while the client's call waits for its answer.
pub fn kill(scene: &mut Scene, client: i32) -> Result<Death> {
    scene.order(Order::Hang)?;
    until_it_waits(scene, client)?;
    let before_ns = scene.kill_server()?;
    match scene.told()? {
        Told::Died { error, code, at_ns } => {
            Ok(Death { error, code, took_ns: at_ns.saturating_sub(before_ns) })
        }
        told => Err(strange(&told)),
    }
}

/// Until the node says that the client sleeps in sendrec.
fn until_it_waits(scene: &mut Scene, client: i32) -> Result<()> {
    let vm = scene.vm.id();
    for _ in 0..10_000 {
        let members = scene.node()?.endpoints(vm)?;
        let wait = members.iter().find(|member| member.pid == client).map(|member| &member.wait);
        if wait.is_some_and(|wait| wait.verb.starts_with("sendrec") && wait.for_ns > 500_000) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Err(Fail::plain("the client's call does not come to wait"))
}
