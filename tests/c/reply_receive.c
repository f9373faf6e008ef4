/*
 * m3_reply_receive_long between two processes: which half fails, and what is kept then.
 */
#include <m3ipc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 100000
#define LIMIT_MS 60000

static const size_t lengths[] = { 0, 1, 40, 1792, 1793, MOST };

static void must(int good, const char *what)
{
    if (!good) {
        printf("%s\n", what);
        exit(1);
    }
}

static char byte_at(size_t at, int type)
{
    return (char)(at * 31 + (size_t)type);
}

static void fill(char *buf, size_t len, int type)
{
    for (size_t at = 0; at < len; at++)
        buf[at] = byte_at(at, type);
}

static int is_filled(const char *buf, size_t len, int type)
{
    for (size_t at = 0; at < len; at++)
        if (buf[at] != byte_at(at, type))
            return 0;
    return 1;
}

/* Asks with each length, then as the steps of main want it. */
static void client(int vmid, int server)
{
    static char buf[MOST];
    m3_message m;
    size_t len;
    must(mnx_bind(vmid, 2) == 2, "the client binds");
    for (int type = 0; type < (int)(sizeof lengths / sizeof *lengths); type++) {
        fill(buf, lengths[type], type);
        m.m_type = type;
        must(m3_sendrec_long_T(server, &m, buf, lengths[type], buf, sizeof buf, &len,
                               LIMIT_MS) == M3_OK, "a call");
        must(m.m_type == type + 100 && len == lengths[type], "the type and length of the answer");
        must(is_filled(buf, len, type + 100), "the bytes of the answer");
    }
    m.m_type = 50; /* the end of the loop: a request without an answer until "short" */
    must(m3_sendrec_long_T(server, &m, "", 0, buf, sizeof buf, &len, LIMIT_MS) == M3_OK, "50");
    must(m.m_type == 150 && len == 5 && memcmp(buf, "short", 5) == 0, "the answer to 50");
    fill(buf, 100, 51);
    m.m_type = 51;
    must(m3_send_long_T(server, &m, buf, 100, LIMIT_MS) == M3_OK, "100 bytes for 10");
    m.m_type = 52;
    must(mnx_sendrec_T(server, &m, LIMIT_MS) == M3_OK && m.m_type == 152, "the answer to 52");
    must(mnx_notify(server) == M3_OK, "a notification");
    m.m_type = 53;
    must(mnx_send_T(server, &m, LIMIT_MS) == M3_OK, "the last message");
}

int main(void)
{
    static char buf[MOST];
    VM_usr_t vm;
    m3_message m;
    size_t len = 0;
    int answered = -1, vmid = 9, status, code, rounds = 0;

    code = mnx_drvs_init(LOCALNODE, NULL);
    must(code >= 0 || code == EMOLDRVSBUSY, "a node");
    memset(&vm, 0, sizeof vm);
    vm.vm_vmid = vmid;
    strcpy(vm.vm_name, "c-reply");
    must(mnx_vm_init(&vm) >= 0, "a VM");
    must(mnx_bind(vmid, 1) == 1, "the server binds");
    pid_t other = fork();
    if (other == 0) {
        client(vmid, 1);
        _exit(0);
    }
    code = m3_receive_long_T(M3_ANY, &m, buf, sizeof buf, &len, LIMIT_MS);
    while (code == M3_OK && m.m_type < 50) {
        must(len == lengths[rounds] && is_filled(buf, len, m.m_type), "the bytes of a request");
        m.m_type += 100;
        fill(buf, len, m.m_type);
        code = m3_reply_receive_long(m.m_source, &m, buf, len, buf, sizeof buf, &len, &answered);
        must(answered == 1, "the client has its answer");
        rounds++;
    }
    must(code == M3_OK && m.m_type == 50 && len == 0 && rounds == 6, "all requests");
    int from = m.m_source;

    /* Each of these fails before the answer. The client goes on waiting. */
    answered = 7;
    m.m_type = 1;
    code = m3_reply_receive_long_T(from, &m, buf, 0, buf, sizeof buf, &len, &answered, -5);
    must(code == EMOLINVAL && answered == 0, "a wrong limit");
    code = m3_reply_receive_long(3, &m, "", 0, buf, sizeof buf, &len, &answered);
    must(code == EMOLDSTDIED && answered == 0 && m.m_type == 1, "an answer to a free slot");
    code = m3_reply_receive_long(from, &m, (void *)8, 5, buf, sizeof buf, &len, &answered);
    must(code == EMOLADDRNOTAVAIL && answered == 0, "bytes that cannot be read");
    code = m3_reply_receive_long(from, &m, "", 0, (void *)8, 5, &len, &answered);
    must(code == EMOLADDRNOTAVAIL && answered == 0, "a buffer that cannot be written");
    code = m3_reply_receive_long(from, &m, "", 0, buf, 5, (void *)8, &answered);
    must(code == EMOLADDRNOTAVAIL && answered == 0, "a length that cannot be written");

    m.m_type = 150;
    code = m3_reply_receive_long_T(from, &m, "short", 5, buf, 10, &len, &answered, LIMIT_MS);
    must(code == EMOLMSGSIZE && answered == 1, "more bytes than the buffer has");
    must(m.m_type == 51 && len == 100 && is_filled(buf, 10, 51), "the message is taken");
    must(mnx_receive_T(M3_ANY, &m, LIMIT_MS) == M3_OK && m.m_type == 52, "a request");
    m.m_type = 152;
    code = m3_reply_receive_long_T(from, &m, "", 0, buf, 10, NULL, NULL, LIMIT_MS);
    must(code == M3_OK && m3_kind() == M3_KIND_NOTIFY, "a notification is the next message");

    /* A failed answer takes nothing that waits. */
    m.m_type = 1;
    code = m3_reply_receive_long(from, &m, "", 0, buf, 10, &len, &answered);
    must(code == EMOLPROCSTS && answered == 0 && m.m_type == 1, "the client does not wait");
    must(mnx_receive_T(from, &m, LIMIT_MS) == M3_OK && m.m_type == 53, "its message is kept");
    must(waitpid(other, &status, 0) == other && status == 0, "the client ends well");
    must(mnx_unbind(vmid, 1) >= 0 && mnx_vm_end(vmid) >= 0 && mnx_drvs_end() >= 0,
         "unbind, vm_end, drvs_end");
    puts("answers of 0 to 100000 bytes, each with the next request");
    return 0;
}
