/* Wrong uses of the C API. Prints the call, its code and m3_strerror's text, and m3_last_reason's
 * sentence. misuse.txt has the lines that are right; tests/c/run.sh compares them. */
#define M3_NO_SHORT_NAMES
#include <m3ipc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call on one line, and the text of its code. */
#define TRY(call) show(#call, (long)(call))

/* A text, with DIR in place of the runtime directory. */
static void print_reason(const char *text)
{
    const char *dir = getenv("M3_RUNTIME_DIR");
    const char *at = dir && *dir ? strstr(text, dir) : NULL;
    if (at)
        printf("    %.*sDIR%s\n", (int)(at - text), text, at + strlen(dir));
    else
        printf("    %s\n", text);
}

static void show(const char *call, long code)
{
    if (code < 0) {
        printf("%s: %ld: %s\n", call, code, m3_strerror((int)code));
        print_reason(m3_last_reason());
    } else {
        printf("%s: ok\n", call);
    }
}

static void before_the_node(void)
{
    m3_message m = {0};
    m3_vm_usr_t vm = {0};

    puts("# without a node");
    TRY(mnx_bind(0, 29));
    TRY(mnx_vm_init(&vm));
    TRY(mnx_vm_end(0));
    TRY(mnx_getvminfo(0, &vm));
    TRY(mnx_send(1, &m));
    TRY(mnx_drvs_end());
}

static int refused_node(int vms, int tasks)
{
    m3_drvs_usr_t node = {0};

    node.d_nr_vms = vms;
    node.d_nr_tasks = tasks;
    return mnx_drvs_init(M3_LOCALNODE, &node);
}

static m3_vm_usr_t vm_of(int id, const char *name)
{
    m3_vm_usr_t vm = {0};

    vm.vm_vmid = id;
    strncpy(vm.vm_name, name, sizeof vm.vm_name);
    return vm;
}

static int made(m3_vm_usr_t vm)
{
    return mnx_vm_init(&vm);
}

static void vms(void)
{
    m3_vm_usr_t vm = vm_of(0, "shop");

    puts("# VMs");
    TRY(mnx_vm_init(NULL));
    TRY(made(vm_of(-1, "shop")));
    TRY(made(vm_of(99, "shop")));
    TRY(made(vm_of(0, "a-name-of-16-byt")));
    TRY(made(vm_of(0, "12")));
    TRY(made(vm_of(0, "a/b")));
    vm.vm_reserved = 1;
    TRY(made(vm));
    vm = vm_of(0, "shop");
    vm.vm_nr_procs = 99999;
    TRY(made(vm));
    vm.vm_nr_procs = -1;
    TRY(made(vm));
    vm = vm_of(0, "shop");
    vm.vm_mode = 07777;
    TRY(made(vm));
    vm = vm_of(0, "shop");
    vm.vm_copy = 2;
    TRY(made(vm));
    vm = vm_of(0, "shop");
    vm.vm_grace_ms = -1;
    TRY(made(vm));
    TRY(made(vm_of(0, "shop")));
    TRY(made(vm_of(0, "other")));
    TRY(made(vm_of(1, "shop")));
    TRY(mnx_vm_end(5));
    TRY(mnx_vm_end(-7));
    TRY(mnx_getvminfo(99, &vm));
    TRY(mnx_getvminfo(0, NULL));
}

static void unbound(void)
{
    m3_message m = {0};

    puts("# an unbound process");
    TRY(mnx_send(1, &m));
    TRY(mnx_receive(M3_ANY, &m));
    TRY(mnx_sendrec(1, &m));
    TRY(mnx_notify(1));
    TRY(mnx_reply(1, &m));
    TRY(mnx_unbind(0, 29));
    TRY(mnx_wait4bindep_T(1, 0));
    TRY(m3_name_attach("stock"));
    TRY(m3_name_locate("stock"));
    TRY(mnx_tbind(0, 29));
    TRY(mnx_getep(1));
    puts("# binds");
    TRY(mnx_bind(9, 29));
    TRY(mnx_bind(99, 29));
    TRY(mnx_bind(0, 9999));
    TRY(mnx_bind(0, -99));
    TRY(mnx_lclbind(0, 1, 30));
    TRY(mnx_lclbind(0, -5, 30));
}

static void messages(int self)
{
    m3_message m = {0};
    char bytes[8];
    size_t length;

    puts("# messages");
    TRY(mnx_bind(0, 30));
    TRY(mnx_send_T(self, &m, 0));
    TRY(mnx_send_T(M3_ANY, &m, 0));
    TRY(mnx_send_T(9999, &m, 0));
    TRY(mnx_send_T(40, &m, 0));
    TRY(mnx_send_T(1, &m, 0));
    TRY(mnx_send_T(1, NULL, 0));
    TRY(mnx_sendrec_T(1, &m, 10000));
    TRY(mnx_sendrec_T(1, NULL, 0));
    TRY(mnx_receive_T(M3_ANY, &m, 0));
    TRY(mnx_receive_T(M3_ANY, &m, 10));
    TRY(mnx_receive_T(M3_ANY, NULL, 0));
    TRY(mnx_receive_T(9999, &m, 0));
    TRY(mnx_receive_T(self, &m, 0));
    TRY(mnx_rcvrqst_T(&m, 0));
    TRY(mnx_reply(1, &m));
    TRY(mnx_reply(self, &m));
    TRY(mnx_notify(1));
    TRY(mnx_notify(self));
    TRY(mnx_wakeup(0, 1));
    TRY(mnx_relay(1, &m));
    TRY(m3_send_long_T(1, &m, NULL, 100, 0));
    TRY(m3_receive_long_T(M3_ANY, &m, bytes, sizeof bytes, &length, 0));
    TRY(m3_watch(9999));
    TRY(m3_name_attach(""));
    TRY(m3_name_attach(NULL));
    TRY(m3_name_attach("a-name-of-more-than-63-bytes-which-no-endpoint-of-any-vm-can-have"));
    TRY(m3_name_locate("nosuch"));
    TRY(m3_wait4name_T("nosuch", 10));
    TRY(mnx_wait4bindep_T(40, 10));
    TRY(mnx_wait4unbind_T(self, 10000));
    TRY(mnx_unbind(0, 40));
}

static void copies(int self)
{
    char here[8], there[8];

    puts("# copies");
    TRY(mnx_vcopy_T(M3_SELF, here, 1, there, sizeof here, 0));
    TRY(mnx_vcopy_T(M3_SELF, here, self, there, sizeof here, 0));
    TRY(mnx_vcopy_T(M3_ANY, here, 1, there, sizeof here, 0));
    TRY(mnx_vcopy_T(9999, here, M3_SELF, there, sizeof here, 0));
    TRY(mnx_vcopy_T(M3_SELF, here, 1, there, -1, 0));
    TRY(m3_revoke(77));
}

int main(void)
{
    int self;

    puts(m3_last_reason());
    before_the_node();
    puts("# the node");
    TRY(mnx_drvs_init(99, NULL));
    TRY(refused_node(99999, 0));
    TRY(refused_node(-1, 0));
    TRY(refused_node(0, 99));
    TRY(mnx_drvs_init(M3_LOCALNODE, NULL) < 0 ? -1 : 0);
    TRY(mnx_drvs_init(M3_LOCALNODE, NULL));
    vms();
    unbound();
    self = mnx_bind(0, M3_FIRST_USER_NR);
    if (!M3_BOUND(self, M3_FIRST_USER_NR))
        return 1;
    messages(self);
    copies(self);
    puts("# a second end");
    TRY(mnx_unbind(0, self));
    TRY(mnx_unbind(0, self));
    TRY(mnx_vm_end(0));
    TRY(mnx_vm_end(0));
    TRY(mnx_drvs_end());
    return 0;
}
