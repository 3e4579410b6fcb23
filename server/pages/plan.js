'use strict';

// The page of one plan.

const request = pageData('request');
if (request.jobId) {
  byId('job').textContent = `${request.jobId}, step ${count(request.step)}`;
  document.title = `Batch plan: ${byId('job').textContent}`;
}
new PlanView(request, pageData('response'), pageData('origin'), pageData('sentences'));
