/* The JSON document of -J: schema version 3 of nccl-tests, written row by row. Without a file to write every function is silent. */
#ifndef PAYLOAD_RECORD_H
#define PAYLOAD_RECORD_H

#include "options.h"
#include "report.h"

/* Creates the file, under a name with a number appended when the name is taken, and says on stdout which. Only for process 0. A suffix
 * other than .json is ignored without a word, as nccl-tests does. */
void record_begin(const char *path, int argc, char **argv);
void record_config(const struct options *options);
void record_devices(const struct device *devices, int count);
void record_row(const struct row *row);
void record_measurement(bool out_of_place, const struct measurement *measurement, bool cputime);
void record_spread(bool out_of_place, const struct spread *spread);
void record_end_row(int iterations);
void record_summary(const struct summary *summary);
void record_end(void);

/* Closes the document as an abnormal end: well-formed, without end_time. */
void record_abandon(void);

#endif
