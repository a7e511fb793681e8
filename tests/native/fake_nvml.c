/* A stand-in for libnvidia-ml.so.1: the symbols that pynvml resolves for the calls wcbench makes, and no others.
 *
 * Written for the tests from NVML's public ABI (names, argument order, return codes, structure layouts). It is steered
 * by environment variables, all optional. A variable for one device wins over the one for all: FAKE_NVML_X_1, then
 * FAKE_NVML_X. In the rows below, n counts the calls of that function on that device, from 0.
 *
 *   FAKE_NVML_INIT          return code of initialization                                    (0)
 *   FAKE_NVML_COUNT         number of devices                                                (1)
 *   FAKE_NVML_POWER_MW      power is POWER_MW + n * POWER_STEP_MW, in milliwatts             (100000)
 *   FAKE_NVML_POWER_STEP_MW                                                                  (0)
 *   FAKE_NVML_ENERGY_MJ     the counter is ENERGY_MJ + n * ENERGY_STEP_MJ, in millijoules    (5000000)
 *   FAKE_NVML_ENERGY_STEP_MJ                                                                 (1000)
 *   FAKE_NVML_ENERGY_RATE_MW   if set, the counter grows by this power over time instead
 *   FAKE_NVML_<CALL>_RC     return code of POWER, ENERGY, UTILIZATION, CLOCK, TEMPERATURE, TEMPERATUREV, MEMORY, NAME
 *   FAKE_NVML_LOST_AFTER    after this many power reads every call on the device says GPU_IS_LOST
 *   FAKE_NVML_BLINK_AT      power read number n, and no other, says TIMEOUT
 *   FAKE_NVML_SLOW_MS       each power read but the first takes this long
 *   FAKE_NVML_NAME, FAKE_NVML_CAPABILITY (such as 90 for 9.0)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { MAX_DEVICES = 8 };

typedef struct { int index, power_reads, energy_reads; } device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned int version, sensor; int temperature; } temperature_t;
typedef struct {
    char legacy[16];
    unsigned int domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_t;

static device_t devices[MAX_DEVICES];
static int opened = 0;

/* For the tests: initializations not yet shut down. */
int fake_nvml_open(void) { return opened; }

static const char *setting(const char *name, int index) {
    char key[96];
    snprintf(key, sizeof key, "FAKE_NVML_%s_%d", name, index);
    const char *own = getenv(key);
    if (own != NULL) return own;
    snprintf(key, sizeof key, "FAKE_NVML_%s", name);
    return getenv(key);
}

static long number(const char *name, int index, long otherwise) {
    const char *text = setting(name, index);
    return text == NULL ? otherwise : strtol(text, NULL, 10);
}

static int lost(const device_t *d) {
    long after = number("LOST_AFTER", d->index, -1);
    return after >= 0 && d->power_reads >= after;
}

static int state(const device_t *d, const char *call) {
    char name[64];
    if (opened <= 0) return UNINITIALIZED;
    if (d == NULL) return INVALID_ARGUMENT;
    if (lost(d)) return GPU_IS_LOST;
    snprintf(name, sizeof name, "%s_RC", call);
    return (int)number(name, d->index, SUCCESS);
}

static int put(char *buffer, unsigned int length, const char *text) {
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The library */

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    int code = (int)number("INIT", -1, SUCCESS);
    if (code == SUCCESS && opened++ == 0)
        for (int i = 0; i < MAX_DEVICES; i++) devices[i] = (device_t){i, 0, 0};
    return code;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    if (opened <= 0) return UNINITIALIZED;
    opened--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) { return code == 77 ? "A code from the future" : "Fake"; }

int nvmlSystemGetDriverVersion(char *buffer, unsigned int length) { return put(buffer, length, "550.54.15"); }

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 12040;
    return SUCCESS;
}

/* What a device is */

int nvmlDeviceGetCount_v2(unsigned int *count) {
    if (opened <= 0) return UNINITIALIZED;
    *count = (unsigned int)number("COUNT", -1, 1);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **handle) {
    if (opened <= 0) return UNINITIALIZED;
    if (index >= (unsigned int)number("COUNT", -1, 1) || index >= MAX_DEVICES) return INVALID_ARGUMENT;
    *handle = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetName(device_t *d, char *buffer, unsigned int length) {
    int code = state(d, "NAME");
    if (code != SUCCESS) return code;
    const char *name = setting("NAME", d->index);
    return put(buffer, length, name == NULL ? "Fake A100" : name);
}

int nvmlDeviceGetUUID(device_t *d, char *buffer, unsigned int length) {
    char text[64];
    snprintf(text, sizeof text, "GPU-%d0000000-aaaa-bbbb-cccc-00000000000%d", d->index + 1, d->index);
    return put(buffer, length, text);
}

int nvmlDeviceGetPciInfo_v3(device_t *d, pci_t *pci) {
    int code = state(d, "PCI");
    if (code != SUCCESS) return code;
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned int)(0x3B + d->index);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(device_t *d, int *major, int *minor) {
    long capability = number("CAPABILITY", d->index, 80);
    *major = (int)(capability / 10);
    *minor = (int)(capability % 10);
    return state(d, "COMPUTE");
}

int nvmlDeviceGetPowerManagementLimit(device_t *d, unsigned int *milliwatts) {
    *milliwatts = 400000;
    return state(d, "LIMIT");
}

int nvmlDeviceGetMaxClockInfo(device_t *d, unsigned int kind, unsigned int *megahertz) {
    *megahertz = kind == 1 ? 1410 : 1593;
    return state(d, "CLOCK");
}

int nvmlDeviceGetMigMode(device_t *d, unsigned int *current, unsigned int *pending) {
    *current = *pending = 0;
    return state(d, "MIG");
}

/* What a device does */

int nvmlDeviceGetPowerUsage(device_t *d, unsigned int *milliwatts) {
    int code = state(d, "POWER");
    if (code != SUCCESS) return code;
    long n = d->power_reads++;
    long slow = number("SLOW_MS", d->index, 0);
    if (n > 0 && slow > 0) nanosleep(&(struct timespec){slow / 1000, slow % 1000 * 1000000}, NULL);
    if (n == number("BLINK_AT", d->index, -1)) return TIMEOUT;
    *milliwatts = (unsigned int)(number("POWER_MW", d->index, 100000) + n * number("POWER_STEP_MW", d->index, 0));
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(device_t *d, unsigned long long *millijoules) {
    int code = state(d, "ENERGY");
    if (code != SUCCESS) return code;
    long long value = number("ENERGY_MJ", d->index, 5000000);
    long rate = number("ENERGY_RATE_MW", d->index, -1);
    /* Milliwatts times microseconds are nanojoules. */
    if (rate >= 0) value += now_ns() / 1000 % 1000000000000LL * rate / 1000000;
    else value += (long long)d->energy_reads * number("ENERGY_STEP_MJ", d->index, 1000);
    d->energy_reads++;
    *millijoules = (unsigned long long)value;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(device_t *d, utilization_t *percent) {
    percent->gpu = 75;
    percent->memory = 40;
    return state(d, "UTILIZATION");
}

int nvmlDeviceGetMemoryInfo(device_t *d, memory_t *memory) {
    memory->total = 85899345920ULL; /* 80 GiB */
    memory->used = 1073741824ULL;
    memory->free = memory->total - memory->used;
    return state(d, "MEMORY");
}

int nvmlDeviceGetClockInfo(device_t *d, unsigned int kind, unsigned int *megahertz) {
    *megahertz = kind == 1 ? 1200 : 1500;
    return state(d, "CLOCK");
}

int nvmlDeviceGetTemperatureV(device_t *d, temperature_t *reading) {
    reading->temperature = reading->sensor == 0 ? 61 : -1;
    return state(d, "TEMPERATUREV");
}

int nvmlDeviceGetTemperature(device_t *d, unsigned int sensor, unsigned int *celsius) {
    *celsius = sensor == 0 ? 59 : 0;
    return state(d, "TEMPERATURE");
}
