/* The table on stdout: layout and widths of nccl-tests 2.19.6. Process 0 alone prints; elsewhere every function is silent. */
#ifndef PAYLOAD_TABLE_H
#define PAYLOAD_TABLE_H

#include "options.h"
#include "report.h"

void table_begin(bool prints, const struct options *options);
/* rails: the interfaces that carry the data between nodes, NULL where MPI chooses. */
void table_config(const char *program, const char *algorithm, const char *rails);
void table_devices(const struct device *devices, int count);
void table_reduced_max(size_t bytes);
void table_header(void);
void table_row(const struct row *row);
void table_measurement(const struct measurement *measurement);
void table_spread(const struct spread *spread);
void table_timestamp(void);
void table_end_row(void);
void table_summary(const struct summary *summary, const char *program);
void table_last_line(void);

#endif
