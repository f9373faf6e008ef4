//! A server and a client in two processes: `cargo run -p m3ipc --example first`.
use m3ipc::{Address, Message, Node, Source, Strategy, Timeout, VmConfig};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("server") => server(args.next().as_deref()),
        _ => client(),
    }
}
fn strat(s: Option<&str>) -> Strategy { match s { Some("spin") => Strategy::Spin, Some("block") => Strategy::Block, _ => Strategy::Adaptive } }
fn server(s: Option<&str>) -> Result<(), Box<dyn std::error::Error>> {
    let mut node = Node::attach()?;
    let vm = node.vm_named("first")?;
    let mut me = vm.bind(1)?;
    me.set_strategy(strat(s));
    loop {
        let m = me.receive(Source::Any)?;
        if m.is_notification() { me.notify(m.source)?; continue; }
        let r = if m.m_type == 2 { std::thread::sleep(Duration::from_secs(100)); Ok(()) } else if m.m_type==3 {me.send(m.source,&m).map_err(|e|e.to_string())} else { me.reply(m.source, &m).map_err(|e| e.to_string()) };
        if let Err(e) = r { eprintln!("server: {e}"); }
    }
}
fn client() -> Result<(), Box<dyn std::error::Error>> {
    let mut node = Node::attach()?;
    let vm = node.vm_init(&VmConfig::new("first"))?;
    let mut me = vm.bind_any()?;
    println!("me {:?}", me.address());
    for s in ["spin", "adaptive", "block"] {
        let mut child = std::process::Command::new(std::env::current_exe()?).arg("server").arg(s).spawn()?;
        let to = me.wait_bind(Address(1), Timeout::Never)?;
        me.set_strategy(strat(Some(s)));
        let t = Instant::now();
        me.sendrec(to, &Message::new(1))?;
        println!("{s}: first {:?}", t.elapsed());
        let n = 100_000u32;
        for i in 0..1000 { me.sendrec(to, &Message::new(100+i))?; }
        let t = Instant::now();
        for i in 0..n { let m = me.sendrec(to, &Message::new(100 + (i as i32 & 1023)))?; assert_eq!(m.m_type, 100 + (i as i32 & 1023)); }
        println!("{s}: IPC2 {:?}", t.elapsed() / n);
        let t = Instant::now();
        for _ in 0..n { me.send(to, &Message::new(3))?; me.receive(to)?; }
        println!("{s}: IPC1 {:?}", t.elapsed() / n);
        let t = Instant::now();
        for _ in 0..n { me.notify(to)?; me.receive(to)?; }
        println!("{s}: IPC3 {:?}", t.elapsed() / n);
        let pid = child.id();
        let killer = std::thread::spawn(move || { std::thread::sleep(Duration::from_millis(100)); let t = Instant::now(); std::process::Command::new("kill").arg("-9").arg(pid.to_string()).status().unwrap(); t });
        let e = me.sendrec(to, &Message::new(2));
        let end = Instant::now();
        println!("{s}: {:?} after {:?}", e, end - killer.join().unwrap());
        child.wait()?;
        println!("{:?}", me.sendrec(to, &Message::new(2)));
    }
    drop(me);
    node.vm_end(vm.id())?;
    Ok(())
}
