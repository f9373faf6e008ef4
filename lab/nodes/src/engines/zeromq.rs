//! ZeroMQ over TCP: DEALER at the client, ROUTER at the server. It has no TLS.
//!
//! The server is one loop over one socket, which names the line of each frame.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use crate::line::{COPY_BYTES, ECHO, Engine, Line, SMALL_BYTES, Shape};

/// ZeroMQ.
pub struct ZeroMq;

impl Engine for ZeroMq {
    type Line = ZeroMqLine;

    fn shape(&self) -> Shape {
        Shape::Threads
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<ZeroMqLine> {
        let socket = zmq::Context::new().socket(zmq::DEALER).map_err(io::Error::from)?;
        socket.connect(&format!("tcp://{to}")).map_err(io::Error::from)?;
        Ok(ZeroMqLine(socket))
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        let socket = zmq::Context::new().socket(zmq::ROUTER).map_err(io::Error::from)?;
        socket.bind(&format!("tcp://{at}")).map_err(io::Error::from)?;
        let mut filled: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut target = vec![0; COPY_BYTES];
        loop {
            let mut parts = socket.recv_multipart(0).map_err(io::Error::from)?;
            let (Some(mut frame), Some(line)) = (parts.pop(), parts.pop()) else { continue };
            if frame.first() != Some(&ECHO) {
                let from = filled.entry(line.clone()).or_default();
                let end = (*from + frame.len()).min(COPY_BYTES);
                target[*from..end].copy_from_slice(&frame[..end - *from]);
                *from = end;
                if end < COPY_BYTES {
                    continue;
                }
                *from = 0;
                frame.truncate(SMALL_BYTES);
            }
            socket.send_multipart([line, frame], 0).map_err(io::Error::from)?;
        }
    }
}

/// A socket of a client.
pub struct ZeroMqLine(zmq::Socket);

impl Line for ZeroMqLine {
    async fn send(&mut self, frame: &[u8], _: bool) -> io::Result<()> {
        self.0.send(frame, 0).map_err(io::Error::from)
    }

    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        *frame = self.0.recv_bytes(0).map_err(io::Error::from)?;
        Ok(())
    }

    fn has_more(&self) -> bool {
        false
    }
}
